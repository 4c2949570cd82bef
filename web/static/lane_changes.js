// The changes of a lane as annotations on its charts: a numbered line at each, and a list that says what and by whom.

import { ask, can, el } from './api.js';

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class LaneChanges {
  constructor(list) {
    Object.assign(this, { list, entries: [], shown: [], told: '' });
  }

  // Of two answers the one that was asked for later counts: the other can be older, and arrive after it.
  async load(lane) {
    const mine = {};
    this.asking = mine;
    const { entries } = lane && can.has('history') ? await ask('GET', '/api/history') : { entries: [] };
    if (this.asking !== mine) return;
    this.entries = entries.filter((entry) => entry.lanes.includes(lane)).reverse()
      .map(({ when, summary, author }) => ({ when, s: Date.parse(when) / 1000, text: `${summary}, by ${author.user}` }));
  }

  // Those within a range of time in s have a line and an item of the list.
  between(first, last) {
    this.shown = this.entries.filter(({ s }) => s >= first && s <= last);
    const told = JSON.stringify(this.shown);
    if (told === this.told) return;
    this.told = told;
    this.list.hidden = !this.shown.length;
    this.list.replaceChildren(...this.shown.map(({ when, text }) =>
      el('li', {}, el('time', { datetime: when }, new Date(when).toLocaleTimeString()), ` ${text}`)));
  }

  // Draws the lines on a chart of uPlot.
  draw(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    Object.assign(ctx, { strokeStyle: color('soft'), fillStyle: color('soft'), lineWidth: devicePixelRatio, textAlign: 'left', textBaseline: 'top' });
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    this.shown.forEach(({ s }, i) => {
      const left = plot.valToPos(s, 'x', true);
      if (left < bbox.left || left > bbox.left + bbox.width) return; // zoomed in elsewhere
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(String(i + 1), left + 3 * devicePixelRatio, bbox.top);
    });
    ctx.restore();
  }
}
