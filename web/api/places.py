"""The endpoint of geography: places on the map and the round trips between them."""

from __future__ import annotations

from msgspec.structs import asdict

from emulator.model import geography
from web.api.routing import EndpointTable, Query
from web.api.schemas import Answer

table = EndpointTable()


class PlaceAnswer(Answer):
    """A place in degrees, and the round trip to the hub: measured or estimated as `source` says; null without a hub."""

    name: str
    country: str
    latitude: float
    longitude: float
    rtt_ns: int | None
    source: str | None


class PlacesAnswer(Answer):
    """All places by name."""

    places: list[PlaceAnswer]


HUB = {"hub": Query(geography.place, {"type": "string", "examples": ["tokyo"]}, "return the round trips to this place")}


@table("GET", "/api/places", PlacesAnswer, query=HUB)
def places(hub: geography.Place | None = None) -> PlacesAnswer:
    """The known places, as `longhaul places` lists them."""
    return PlacesAnswer(places=[_place(one, hub) for one in geography.places().values()])


def _place(place: geography.Place, hub: geography.Place | None) -> PlaceAnswer:
    trip = geography.trip(hub.name, place.name) if hub else None
    return PlaceAnswer(**asdict(place), rtt_ns=trip.rtt_ns if trip else None, source=trip.source if trip else None)
