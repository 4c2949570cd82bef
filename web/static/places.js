// The places that the daemon knows, by name. The map draws sites without a known place on a circle around the hub.

import { ask } from './api.js';

// Longitude and latitude in degrees, by name.
export const PLACES = {};

export async function loadPlaces() {
  for (const place of (await ask('GET', '/api/places')).places) PLACES[place.name] = [place.longitude, place.latitude];
}

// A position on a map of 1000 x 500 (equirectangular).
export const onMap = ([longitude, latitude]) => [((longitude + 180) / 360) * 1000, ((90 - latitude) / 180) * 500];

// All other places and their round trips to the hub (`rtt_ns`); none when the hub is not a known place.
export async function around(hub) {
  if (!(hub in PLACES)) return [];
  const { places } = await ask('GET', `/api/places?hub=${encodeURIComponent(hub)}`);
  return places.filter((place) => place.name !== hub);
}
