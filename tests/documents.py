"""Pages as a preview or a program reads them."""

from collections import defaultdict
from html.parser import HTMLParser


class Document(HTMLParser):
    """The title of a page, what its meta elements say, each of which is there once, and all elements by their tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.title, self._in_title = "", False
        self.said: dict[str, str] = {}
        self.elements: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements[tag].append(given)
        if tag == "meta" and (name := given.get("property") or given.get("name")):
            assert name not in self.said, name
            self.said[name] = given["content"]
        self._in_title = tag == "title" and "body" not in self.elements

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def handle_data(self, data: str) -> None:
        self.title += data if self._in_title else ""
