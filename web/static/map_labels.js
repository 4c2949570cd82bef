// Where the names on the map stand, so that none lies on another, on a site, or outside the drawing.

const GAP = 4; // pixels between a site and its name
const RINGS = [1, 2, 3]; // how far a name may be from its site, in its nearest distances; farther ones get a line
// Sideways and vertically: beside the site first, then above and below it, then between.
const SIDES = [[1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]];

const overlap = (a, b) => Math.max(0, Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x))
  * Math.max(0, Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y));
const inside = (box, frame) => box.x >= frame.x && box.y >= frame.y
  && box.x + box.width <= frame.x + frame.width && box.y + box.height <= frame.y + frame.height;

// Whether a name that stands off is nearer to another site than to its own: it would be taken for that one's.
function misleads(box, [x, y], dots) {
  const to = (px, py) => Math.hypot(px - Math.min(Math.max(px, box.x), box.x + box.width), py - Math.min(Math.max(py, box.y), box.y + box.height));
  return box.ring > 1 && dots.some((dot) => to(dot.x + dot.width / 2, dot.y + dot.height / 2) < to(x, y));
}

function* candidates({ at: [x, y], width, height, radius, away }) {
  const sides = [...SIDES].sort((one, other) => away(other) - away(one));
  for (const ring of RINGS) {
    for (const [right, down] of sides) {
      const [dx, dy] = [right * (radius * ring + GAP), down * (radius * ring + GAP)];
      yield {
        ring, width, height,
        x: x + dx + (right === 0 ? -width / 2 : right < 0 ? -width : 0),
        y: y + dy + (down === 0 ? -height / 2 : down < 0 ? -height : 0),
      };
    }
  }
}

// Boxes by name, in pixels of the drawing; none for a name that fits nowhere. `labels` are {name, at, width, height,
// radius, away}, most important first: `away` says how well a side ([right, down]) suits the label. `dots` are boxes that
// stay free.
export function placed(labels, dots, frame) {
  const taken = [...dots];
  const found = {};
  for (const label of labels) {
    for (const box of candidates(label)) {
      if (!inside(box, frame) || misleads(box, label.at, dots) || taken.some((other) => overlap(box, other) > 0)) continue;
      found[label.name] = box;
      taken.push(box);
      break;
    }
  }
  return found;
}
