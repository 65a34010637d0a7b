"""The elements of an HTML page."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """Collects the elements of a page, and the text of its data scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.data: list[str] = []
        self._in_data = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._in_data = tag == "script" and dict(attrs).get("class") == "data"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data.append(data)
            self._in_data = False
