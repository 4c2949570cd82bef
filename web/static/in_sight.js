// Drawings that cost nothing while nobody can see them: what is out of sight is drawn when it comes into sight.

const drawings = new WeakMap();
const watcher = new IntersectionObserver((seen) => seen.forEach(({ target, isIntersecting }) => drawings.get(target).sight(isIntersecting)));

export class InSight {
  constructor(element, draw) {
    Object.assign(this, { draw, visible: false, due: false });
    drawings.set(element, this);
    watcher.observe(element);
  }

  // What is shown has changed.
  changed() {
    this.due = true;
    this.sight(this.visible);
  }

  sight(visible) {
    this.visible = visible;
    if (!visible || !this.due) return;
    this.due = false;
    this.draw();
  }
}
