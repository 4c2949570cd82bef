// Drawings that cost little while nobody can see them: what is out of sight is drawn when it comes into sight. Until then
// it is drawn at times, for whoever prints the page.

const SELDOM = 10; // changes
const drawings = new WeakMap();
const watcher = new IntersectionObserver((seen) => seen.forEach(({ target, isIntersecting }) => drawings.get(target).sight(isIntersecting)));

export class InSight {
  constructor(element, draw) {
    Object.assign(this, { draw, visible: false, due: false, left: 0 }); // `left`: changes until it is drawn out of sight
    drawings.set(element, this);
    watcher.observe(element);
  }

  // What is shown has changed.
  changed() {
    this.due = true;
    this.left -= 1;
    if (this.visible || this.left < 0) this.#now();
  }

  sight(visible) {
    this.visible = visible;
    if (visible && this.due) this.#now();
  }

  #now() {
    Object.assign(this, { due: false, left: SELDOM });
    this.draw();
  }
}
