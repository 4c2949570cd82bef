// Where the schedule is: told by the daemon every second, and counted on until the next time.

import { clock } from './schedule_values.js';

export class Player {
  constructor() {
    Object.assign(this, { played: null, leased: false });
  }

  look({ played_ns: ns, leased }) {
    Object.assign(this, { leased, played: ns === null || leased ? null : { ns, at: performance.now() } });
  }

  // In ns, of a loop within it; null when none is played.
  now(state) {
    if (!this.played || !state?.schedule) return null;
    const ns = this.played.ns + (performance.now() - this.played.at) * 1e6;
    return state.loop_ns && ns > 0 ? ns % state.loop_ns : ns;
  }

  sentence(state) {
    const ns = this.now(state);
    if (!state?.schedule) return 'No schedule is up: the lanes stay as they are.';
    if (ns === null) return this.leased ? 'The schedule stands still while a measurement has the lanes.' : 'The schedule is up.';
    if (ns < 0) return `The schedule starts in ${clock(-ns)}.`;
    if (state.loop_ns) return `The schedule is at ${clock(ns)} of a loop of ${clock(state.loop_ns)}.`;
    return ns >= state.last_ns ? 'The schedule is over: its last keys hold.' : `The schedule is at ${clock(ns)}; its last key is at ${clock(state.last_ns)}.`;
  }
}
