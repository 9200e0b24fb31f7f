"""A folder that only Java can reach, once Java is gone."""

from collections.abc import Callable

import pytest
from py4j.protocol import Py4JNetworkError

from weft.spark.session.troubles import Trouble, trouble_of
from weft.storage.hadoop import HadoopFolder


class Gone:
    """A session whose Java process has ended."""

    @property
    def _jvm(self) -> object:
        raise Py4JNetworkError("Error while sending or receiving")


@pytest.mark.parametrize(
    "ask",
    [
        lambda folder: folder.names(),
        lambda folder: folder.read("x"),
        lambda folder: folder.has("x"),
        lambda folder: folder.delete("x"),
        lambda folder: folder.rename("x", "y"),
    ],
    ids=["names", "read", "has", "delete", "rename"],
)
def test_it_cannot_be_read_or_written_as_any_place_that_is_out_of_reach(
    ask: Callable[[HadoopFolder], object],
) -> None:
    """Threads that look into it again and again go on, and leave it to others to say what happened."""
    folder = HadoopFolder(Gone(), "there://folder")  # type: ignore[arg-type]
    with pytest.raises(OSError, match="there://folder") as caught:
        ask(folder)
    assert isinstance(caught.value.__cause__, Py4JNetworkError)
    assert trouble_of(caught.value) in (Trouble.JAVA, Trouble.CONNECTION)
