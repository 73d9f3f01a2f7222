"""A pickle of image data is read, and no pickle runs anything."""

import os
import pickle
import subprocess
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from debiased_contrastive.images.datasets import ByteArray, unpickle


class Attack:
    """Calls a function when it is unpickle."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.system, exec, eval, subprocess.getoutput])
def test_an_attack_runs_nothing_and_is_named(tmp_path: Path, function: Any, protocol: int) -> None:
    trace, path = tmp_path / "trace", tmp_path / "data_batch_1"
    code = f"__import__('os').mkdir({str(trace)!r})" if function in (exec, eval) else f"touch {trace}"
    path.write_bytes(pickle.dumps({"labels": [Attack(function, code)]}, protocol))
    with pytest.raises(ValueError, match="nothing was run") as caught:
        unpickle(path)
    assert not trace.exists()
    message = str(caught.value)
    assert message.startswith(f"{path} is damaged: it names ")
    assert function.__name__ in message
    assert message.endswith("delete it and download it again with debiased train --download")
    assert "\n" not in message
    # The same bytes do run where nothing restricts them, so the attack is a real one.
    pickle.loads(path.read_bytes())
    assert trace.exists()


@pytest.mark.parametrize(
    "stream",
    [
        b"(S'touch {}'\nios\nsystem\n.",  # the INST opcode
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.",  # an attribute of an allowed name
        b"\x80\x02cnumpy\nload\nU\x02{}\x85R.",
        b"\x80\x02cbuiltins\ngetattr\n.",
        b"\x80\x02cnumpy\nndarray\nK\x05\x85R.",  # allowed to be named, not to be called
        b"\x80\x02cnumpy\ndtype\n)\x81.",  # no class of ours is within reach
        b"\x80\x02cnumpy\ndtype\nU\x01OK\x00K\x01\x87R.",
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",
        b"\x80\x02Pname\n.",
        b"\x80\x02\x82\x01.",
        b"",
        b"no pickle at all",
    ],
)
def test_forged_streams_get_one_clear_line(tmp_path: Path, stream: bytes) -> None:
    path = tmp_path / "test_batch"
    path.write_bytes(stream.replace(b"{}", str(tmp_path / "trace").encode()))
    with pytest.raises(ValueError, match=r"is damaged: .+; delete it and download it again") as caught:
        unpickle(path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "trace").exists()


def test_an_ordered_dict_is_as_foreign_as_anything(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps(OrderedDict(a=1)))
    with pytest.raises(ValueError, match=r"it names collections.OrderedDict"):
        unpickle(tmp_path / "file")


@pytest.mark.parametrize("protocol", range(5))
def test_byte_arrays_come_back_bit_for_bit(tmp_path: Path, protocol: int) -> None:
    values = np.arange(256, dtype=np.uint8).reshape(8, 32)
    (tmp_path / "file").write_bytes(pickle.dumps({"data": values, "labels": [1, 2]}, protocol))
    content = unpickle(tmp_path / "file")
    assert isinstance(content, dict)
    assert content["labels"] == [1, 2]
    assert isinstance(content["data"], ByteArray)
    np.testing.assert_array_equal(content["data"].values, values)


@pytest.mark.parametrize(
    "values", [np.zeros(3), np.zeros(2, object), np.zeros((3, 2), np.uint8, order="F"), np.zeros(2, "S3")]
)
def test_other_arrays_are_refused(tmp_path: Path, values: Any) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps(values, 2))
    with pytest.raises(ValueError, match="an array"):
        unpickle(tmp_path / "file")


@given(cut=st.integers(0, 150), flip=st.integers(0, 149), value=st.integers(0, 255))
def test_damage_is_an_error_or_a_value_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int, value: int
) -> None:
    stream = bytearray(pickle.dumps({b"data": np.arange(6, dtype=np.uint8), b"labels": [1, 2, 3]}, 2))
    # Opcodes of four-byte memo places are left out: a forged one only asks for memory.
    if flip < len(stream) and value not in b"rjJX":
        stream[flip] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(stream[:cut])
    try:
        unpickle(path)
    except ValueError as error:
        assert str(error).startswith(f"{path} is damaged: ")  # noqa: PT017
