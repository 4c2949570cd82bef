// Places by the names that sites commonly have: longitude and latitude in degrees. Sites that are not here stand on a
// circle around the hub.

export const PLACES = {
  amsterdam: [4.9, 52.4], athens: [23.7, 38], atlanta: [-84.4, 33.7], auckland: [174.8, -36.8], bangalore: [77.6, 13],
  beijing: [116.4, 39.9], berlin: [13.4, 52.5], bogota: [-74.1, 4.7], boston: [-71.1, 42.4], brussels: [4.4, 50.8],
  'buenos-aires': [-58.4, -34.6], cairo: [31.2, 30], california: [-119.8, 36.8], 'cape-town': [18.4, -33.9],
  chicago: [-87.6, 41.9], dallas: [-96.8, 32.8], delhi: [77.2, 28.6], denver: [-105, 39.7], dubai: [55.3, 25.2],
  dublin: [-6.3, 53.3], frankfurt: [8.7, 50.1], geneva: [6.1, 46.2], 'hong-kong': [114.2, 22.3], honolulu: [-157.9, 21.3],
  istanbul: [29, 41], jakarta: [106.8, -6.2], japan: [138.3, 36.2], johannesburg: [28, -26.2], lagos: [3.4, 6.5],
  lima: [-77, -12], lisbon: [-9.1, 38.7], london: [-0.1, 51.5], 'los-angeles': [-118.2, 34.1], madrid: [-3.7, 40.4],
  manila: [121, 14.6], melbourne: [145, -37.8], 'mexico-city': [-99.1, 19.4], miami: [-80.2, 25.8], milan: [9.2, 45.5],
  montreal: [-73.6, 45.5], moscow: [37.6, 55.8], mumbai: [72.9, 19.1], nairobi: [36.8, -1.3], 'new-york': [-74, 40.7],
  osaka: [135.5, 34.7], oslo: [10.8, 59.9], paris: [2.4, 48.9], perth: [115.9, -32], prague: [14.4, 50.1],
  reykjavik: [-21.9, 64.1], rome: [12.5, 41.9], 'san-francisco': [-122.4, 37.8], santiago: [-70.7, -33.4],
  'sao-paulo': [-46.6, -23.6], seattle: [-122.3, 47.6], seoul: [127, 37.6], shanghai: [121.5, 31.2],
  singapore: [103.8, 1.4], stockholm: [18.1, 59.3], sydney: [151.2, -33.9], taipei: [121.6, 25], 'tel-aviv': [34.8, 32.1],
  tokyo: [139.7, 35.7], toronto: [-79.4, 43.7], vancouver: [-123.1, 49.3], vienna: [16.4, 48.2], warsaw: [21, 52.2],
  washington: [-77, 38.9], zurich: [8.5, 47.4],
};

// On a map of 1000 x 500 (equirectangular).
export const onMap = ([longitude, latitude]) => [((longitude + 180) / 360) * 1000, ((90 - latitude) / 180) * 500];

// The RTT in ms between two places: great circle, light in fibre (200 km/ms), cables half as long again.
export function rttMs(one, other) {
  const rad = Math.PI / 180;
  const [a, b] = [one, other].map(([lon, lat]) => [lon * rad, lat * rad]);
  const h = Math.sin((b[1] - a[1]) / 2) ** 2 + Math.cos(a[1]) * Math.cos(b[1]) * Math.sin((b[0] - a[0]) / 2) ** 2;
  return Math.round((2 * 6371 * Math.asin(Math.sqrt(h)) * 1.5 * 2) / 200);
}
