"""Every source gives the rows of the array it was made of, in blocks, and its faults are named."""

import json
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as arrow  # type: ignore[import-untyped]
import pytest
import torch
from pyarrow import parquet
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from debiased_contrastive import tables
from debiased_contrastive.tables import Table, open_table

Array = npt.NDArray[Any]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100)


def table(dtype: str = "f4", rows: int = 23, columns: int = 5) -> Array:
    return np.random.default_rng(0).integers(0, 2 if dtype == "?" else 100, (rows, columns)).astype(dtype)


def check(rows: Table, expected: Array) -> None:
    blocks = list(rows.blocks())
    assert rows.shape == expected.shape
    assert {block.dtype for block in blocks} == {rows.dtype}
    assert all(block.flags.writeable and block.flags.c_contiguous for block in blocks)
    assert all(block.nbytes <= max(100, block[:1].nbytes) for block in blocks)
    assert len(blocks) > 1
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
    np.testing.assert_array_equal(next(rows.blocks()), blocks[0])


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f4", "i8", "u1", "?", "U7", "S3"])
@pytest.mark.parametrize("shape", [(23, 5), (120,), (31, 2, 2)])
def test_numpy_files_and_arrays(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = table(dtype, 120, 5).ravel()[: np.prod(shape)].reshape(shape)
    file = tmp_path / "one.npy"
    np.save(file, array)
    np.savez(tmp_path / "stored.npz", z0=array, z1=array[:1])
    np.savez_compressed(tmp_path / "packed.npz", z0=array, z1=array[:1])
    sources = (array, np.load(file, mmap_mode="r"), file, str(file))
    for source in (*sources, f"{tmp_path}/stored.npz:z0", f"{tmp_path}/packed.npz:z0"):
        rows = open_table(source, "embeddings")
        check(rows, array)
        assert rows.dtype == {"f2": "f4", ">f4": "f4"}.get(dtype, dtype)
        assert rows.dtype.isnative


def test_columns_first_is_read_by_rows(tmp_path: Path) -> None:
    array = np.asfortranarray(table())
    np.save(tmp_path / "f.npy", array)
    check(open_table(tmp_path / "f.npy", "x"), array)
    check(open_table(array[::-1], "x"), array[::-1])


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?"])
def test_safetensors(tmp_path: Path, dtype: str) -> None:
    array = table(dtype, 201)
    # A first tensor of an odd size leaves the second one unaligned.
    save_file({"a": np.ones(3, np.uint8), "embeddings": array}, tmp_path / "x.safetensors", {"made": "here"})
    rows = open_table(tmp_path / "x.safetensors", "embeddings")
    check(rows, array)
    assert rows.dtype == {"f2": "f4"}.get(dtype, dtype)
    assert rows.name == f"{tmp_path}/x.safetensors:embeddings"


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int32]
)
def test_tensors(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = (torch.randn(31, 4, generator=torch.Generator().manual_seed(0)) * 9).to(dtype)
    expected = (tensor.float() if dtype.itemsize < 4 else tensor).numpy()
    save_tensors({"z": tensor}, tmp_path / "z.safetensors")
    sources = [
        tensor,
        tmp_path / "z.safetensors",
        torch.nn.Parameter(tensor, requires_grad=dtype.is_floating_point),
    ]
    for source in sources:
        rows = open_table(source, "z")
        check(rows, expected)
        assert rows.dtype == expected.dtype


def test_what_is_no_array_yet() -> None:
    check(open_table(table().tolist(), "x"), table())
    words = np.array(["ant", "zebra"] * 9, dtype=object)
    check(open_table(words, "labels"), words.astype(str))
    assert open_table(words, "labels").dtype == "U5"


def test_a_block_is_the_readers_own() -> None:
    array = table()
    for source in (array, torch.from_numpy(array)):
        next(open_table(source, "x").blocks())[:] = -1
    np.testing.assert_array_equal(array, table())


def test_without_rows_there_are_no_blocks(tmp_path: Path) -> None:
    empty = np.empty((0, 4), np.float32)
    np.save(tmp_path / "a.npy", empty)
    np.savez(tmp_path / "a.npz", empty)
    save_file({"a": empty}, tmp_path / "a.safetensors")
    for source in (empty, torch.empty(0, 4), *(tmp_path / f"a.{end}" for end in ("npy", "npz", "safetensors"))):
        rows = open_table(source, "x")
        assert (rows.shape, rows.dtype, list(rows.blocks())) == ((0, 4), np.dtype("f4"), [])
    np.save(tmp_path / "b.npy", np.empty((3, 0)))
    assert [block.shape for block in open_table(tmp_path / "b.npy", "x").blocks()] == [(3, 0)]


def test_a_compressed_member_is_unpacked_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 2**16)
    array = table("f8", 2**14, 8)
    np.savez_compressed(tmp_path / "a.npz", array)
    unpacked = 0

    def counted(file: zipfile.ZipExtFile, size: int = -1) -> bytes:
        nonlocal unpacked
        content = read(file, size)
        unpacked += len(content)
        return content

    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    rows = open_table(tmp_path / "a.npz", "x")
    blocks = rows.blocks()
    assert unpacked < 1000
    np.testing.assert_array_equal(next(blocks), array[:1024])
    assert unpacked < 2**16 + 2000
    assert sum(map(len, blocks)) == len(array) - 1024


def test_which_array_is_read(tmp_path: Path) -> None:
    one, two = table(), table() + 1
    np.savez(tmp_path / "one.npz", z0=one)
    np.savez(tmp_path / "two.npz", embeddings=one, z1=two)
    assert open_table(tmp_path / "one.npz", "x").name == f"{tmp_path}/one.npz:z0"
    check(open_table(tmp_path / "two.npz", "embeddings"), one)
    with pytest.raises(ValueError, match="holds several arrays: embeddings, z1; choose one"):
        open_table(tmp_path / "two.npz", "labels")
    check(open_table(f"{tmp_path}/two.npz:z1", "x"), two)
    np.save(tmp_path / "two.npy", two)
    (tmp_path / "two.npy").rename(tmp_path / "two.npz:z0.NPY")
    check(open_table(tmp_path / "two.npz:z0.NPY", "x"), two)
    assert open_table(one, "views[0]").name == "views[0]"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", "3\n-1\n007\n", [3, -1, 7]),
        ("a.csv", "\ufeff3\r\n4\r\n\r\n", [3, 4]),
        ("b.csv", 'ant\n"bee, wild"\n"\n', ["ant", "bee, wild", ""]),
        ("a.tsv", "1_10\n11_0\n", ["1_10", "11_0"]),
        ("b.txt", "a, b\t\n12345678901234567890", ["a, b", "12345678901234567890"]),
    ],
)
def test_labels_in_lines(tmp_path: Path, name: str, text: str, expected: list[Any]) -> None:
    (tmp_path / name).write_bytes(text.encode())
    rows = open_table(tmp_path / name, "x")
    assert np.concatenate(list(rows.blocks())).tolist() == expected
    assert rows.shape == (len(expected),)
    assert rows.dtype.kind == ("i" if isinstance(expected[0], int) else "U")


@pytest.fixture
def write_parquet(tmp_path: Path) -> Callable[..., Path]:

    def write(**columns: Any) -> Path:
        # Row groups that end in the middle of a block.
        parquet.write_table(arrow.table(columns), tmp_path / "t.parquet", row_group_size=8)
        return tmp_path / "t.parquet"

    return write


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "u1"])
@pytest.mark.parametrize("form", ["list_", "large_list", "fixed"])
def test_columns_of_lists(write_parquet: Callable[..., Path], dtype: str, form: str) -> None:
    array = table(dtype)
    item = arrow.from_numpy_dtype(array.dtype)
    kind = arrow.list_(item, 5) if form == "fixed" else getattr(arrow, form)(item)
    # Through float64, since Python floats become no float16.
    column = arrow.array(array.tolist(), arrow.list_(arrow.float64())).cast(arrow.list_(item)).cast(kind)
    path = write_parquet(**{"id": np.arange(23), "e.x": column})
    rows = open_table(path, "x")
    check(rows, array)
    assert rows.dtype == {"f2": "f4"}.get(dtype, dtype)
    assert rows.name == f"{path}:e.x"


def test_columns_of_scalars(write_parquet: Callable[..., Path]) -> None:
    words = ["ant", "bee", "a zebra"] * 9
    columns = {
        "n": np.arange(27),
        "s": words,
        "d": arrow.array(words).dictionary_encode(),
        "b": np.arange(27) % 2 > 0,
    }
    path = write_parquet(**columns)
    check(open_table(f"{path}:n", "x"), np.arange(27))
    check(open_table(f"{path}:s", "x"), np.array(words))
    check(open_table(f"{path}:d", "x"), np.array(words))
    assert open_table(f"{path}:b", "x").dtype == bool
    assert open_table(f"{path}:s", "x").dtype == "U7"


def test_columns_of_numbers_are_side_by_side(write_parquet: Callable[..., Path]) -> None:
    array = table()
    path = write_parquet(b=array[:, 0], a=array[:, 1].astype("f8"), __index_level_0__=np.arange(23))
    rows = open_table(path, "x")
    check(rows, array[:, :2].astype("f8"))
    assert rows.name == str(path)
    assert open_table(write_parquet(label=np.arange(27)), "x").shape == (27,)
    assert open_table(write_parquet(a=np.empty(0), b=np.empty(0)), "x").shape == (0, 2)


def test_a_row_group_is_not_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 2**16)
    array = np.random.default_rng(0).random((2**16, 32))
    column = arrow.FixedSizeListArray.from_arrays(arrow.array(array.ravel()), 32)
    parquet.write_table(arrow.table({"a": column}), tmp_path / "a.parquet", compression=None, use_dictionary=False)
    del column
    blocks = open_table(tmp_path / "a.parquet", "x").blocks()
    first = next(blocks)
    np.testing.assert_array_equal(first, array[: len(first)])
    assert arrow.total_allocated_bytes() < array.nbytes / 2
    assert sum(map(len, blocks)) == len(array) - len(first)


def test_whole_numbers_beside_fractions_are_no_features(tmp_path: Path) -> None:
    columns = {"id": [7, 8], "f0": [0.5, 1.0], "f1": [2.0, 3.0], "label": [1, 0]}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    check(open_table(tmp_path / "a.parquet", "embeddings"), np.array([[0.5, 2.0], [1.0, 3.0]]))
    check(open_table(f"{tmp_path}/a.parquet:label", "labels"), np.array([1, 0]))


@pytest.mark.parametrize(
    ("columns", "name", "message"),
    [
        ({"e": [[1.0, 2.0]] * 9 + [[1.0]]}, "", r"t\.parquet:e must hold lists of one length, here 2; row 9, from 0, has 1$"),
        ({"e": [[1.0, 2.0]] * 9 + [None]}, "", r"here 2; row 9, from 0, is null$"),
        ({"e": [None, [1.0]]}, "", r"t\.parquet:e must hold no nulls; row 0, from 0, has one"),
        ({"e": [[1.0, 2.0]] * 9 + [[1.0, None]]}, "", r"must hold no nulls; row 9, from 0, has one; drop or fill"),
        ({"e": [1, 2, None]}, "", r"t\.parquet:e must hold no nulls; row 2"),
        ({"a": [1.0, 2.0], "b": [1.0, None]}, "", r"t\.parquet:b must hold no nulls; row 1"),
        ({"e": ["a", None]}, "", r"must hold no nulls; row 1"),
        ({"e": [[["a"]]]}, "", r"must hold numbers, strings or lists of numbers; got list<.*>; cast"),
        ({"a": [[1]], "b": [[2]], "c": [3]}, "", r"holds several arrays: a, b; choose one by .*t\.parquet:NAME"),
        ({"a": [1], "s": ["x"]}, "", r"holds several arrays: a, s; choose"),
        ({"a": [1]}, ":b", r"t\.parquet must hold 'b'; it holds a$"),
    ],
)  # fmt: skip
def test_faults_of_parquet(
    write_parquet: Callable[..., Path], columns: dict[str, Any], name: str, message: str
) -> None:
    path = write_parquet(**columns)
    with pytest.raises(ValueError, match=message):
        list(open_table(f"{path}{name}", "x").blocks())


def test_damaged_parquet(write_parquet: Callable[..., Path]) -> None:
    path = write_parquet(a=table(rows=4000)[:, 0])
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    with pytest.raises(ValueError, match=r"t\.parquet must be a whole \.parquet file: .*; write it again$"):
        open_table(path, "x")
    path.write_bytes(content[:4] + bytes(len(content) // 4) + content[4 + len(content) // 4 :])
    with pytest.raises(ValueError, match=r"t\.parquet must be a whole \.parquet file: .*; write it again$"):
        list(open_table(path, "x").blocks())


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ValueError, match=r"^reading \.parquet needs pyarrow: pip install 'debiased-contrastive\[prior\]'$"
    ):
        open_table(tmp_path / "a.parquet", "x")


@pytest.mark.parametrize("name", ["a.npy", "a.npz:z0", "a.bin", "x:y/a.npy"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError) as error:
        open_table(tmp_path / name, "x")
    assert error.value.filename == str(tmp_path / name.removesuffix(":z0"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.float32(3), r"^views must hold rows; got a single value"),
        (torch.tensor(3.0), r"^views must hold rows; got a single value"),
        (table("c8"), r"^views must hold numbers or strings; got complex64"),
        (np.array(["a", None]), r"^views must hold numbers or strings; got object"),
        ([[1, 2], [3]], r"^views must have rows of one length; got rows of several$"),
    ],
)
def test_arrays_that_are_refused(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_table(source, "views")


def npy_bytes(tmp_path: Path, array: Array) -> bytes:
    np.save(tmp_path / "any.npy", array)
    return (tmp_path / "any.npy").read_bytes()


def test_files_that_are_refused(tmp_path: Path) -> None:
    objects = np.array([{}, None])
    np.savez(tmp_path / "objects.npz", objects)
    np.savez(tmp_path / "fortran.npz", a=np.asfortranarray(table()))
    many: dict[str, Any] = {f"z{number}": table() for number in range(12)}
    np.savez(tmp_path / "several.npz", **many)
    np.savez(tmp_path / "none.npz")
    whole = (tmp_path / "fortran.npz").read_bytes()
    saved = npy_bytes(tmp_path, table())
    (tmp_path / "folder.npy").mkdir()
    for name, content in {
        "empty.npy": b"", "words.npy": b"hello, there", "cut.npy": saved[:-1], "header.npy": saved[:40],
        "syntax.npy": saved.replace(b"'shape': (", b"'shape': [("), "objects.npy": npy_bytes(tmp_path, objects),
        "cut.npz": whole[:-30], "a.bin": b"", "noending": b"", "one.npy": saved,
        "wide.csv": b"1\n2,3\n", "gap.txt": b"1\n\n2\n", "latin.txt": b"\xe9t\xe9\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        archive.writestr("a.npy", saved[:-8])
    for name, message in {
        "empty.npy": r"empty\.npy must be an array saved by np\.save: .*; write it again$",
        "words.npy": r"words\.npy must be an array saved by np\.save: the magic string .*; write it again$",
        "header.npy": r"header\.npy must be an array saved by np\.save: .*; write it again$",
        "syntax.npy": r"syntax\.npy must be an array saved by np\.save: .*; write it again$",
        "cut.npy": r"cut\.npy is cut off: its header asks for 588 bytes; got 587; write it again$",
        "objects.npy": r"objects\.npy holds Python objects, which are not read; save it as numbers",
        "objects.npz": r"objects\.npz:arr_0 holds Python objects",
        "fortran.npz": r"fortran\.npz:a must be stored row by row; got Fortran order; save it with np\.asc",
        "several.npz": r"several\.npz holds several arrays: z0, .*, z9 and 2 more; choose one by .*several\.npz:NAME$",
        "several.npz:z": r"several\.npz must hold 'z'; it holds z0, z1, .* and 2 more$",
        "none.npz": r"none\.npz must hold an array; it holds none$",
        "cut.npz": r"cut\.npz must be a whole \.npz file: .*; write it again with np\.savez$",
        "short.npz": r"short\.npz:a is cut off: its header asks for 588 bytes; got 580",
        "one.npy:z0": r"one\.npy holds one array without a name; got 'z0'; write .*one\.npy alone$",
        "gap.txt:z0": r"gap\.txt holds one array without a name",
        "folder.npy": r"folder\.npy is a folder; expected a file that ends in one of \.npy, \.npz, ",
        "a.bin": r"a\.bin must end in one of \.npy, .*, \.txt; got '\.bin'$",
        "a.bin:z": r"a\.bin must end in one of \.npy, ",
        "noending": r"noending must end in one of .*; got 'no ending'$",
        "wide.csv": r"wide\.csv must hold one label a line; line 2 holds 2; embeddings go into \.npy",
        "gap.txt": r"gap\.txt must hold one label a line; line 2 holds 0; ",
        "latin.txt": r"latin\.txt must be text in UTF-8",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=message) as error:
            open_table(tmp_path / name, "x")
        assert "\n" not in str(error.value)


def test_a_member_that_is_damaged(tmp_path: Path) -> None:
    array = table(rows=2000)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", a=array)
        content = bytearray((tmp_path / "a.npz").read_bytes())
        content[len(content) // 2] ^= 255
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.npz:a is damaged: .*; write it again with np\.savez$"):
            list(open_table(tmp_path / "a.npz", "x").blocks())


def entry(**changed: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} | changed}


def write_safetensors(path: Path, header: Any, numbers: int) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(numbers))


@pytest.mark.parametrize(
    "header",
    [
        entry(dtype="F8_E4M3"),
        entry(dtype="F31"),
        entry(data_offsets=[4, 20]),
        entry(data_offsets=[-4, 12]),
        entry(data_offsets=[0, 12]),
        entry(shape=[2, 3]),
        entry(shape=[-2, -2]),
        entry(shape=None),
        {"a": 3},
        {"a": {}, "b": {}},
        [],
    ],
)
def test_safetensors_that_are_refused(tmp_path: Path, header: Any) -> None:
    write_safetensors(tmp_path / "x.safetensors", header, 16)
    with pytest.raises(
        ValueError, match=r"x\.safetensors must be a whole \.safetensors file: .*; write it again$"
    ) as error:
        open_table(tmp_path / "x.safetensors", "x")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("header", "numbers", "message"),
    [
        ({"__metadata__": {}}, 0, r"x\.safetensors must hold an array; it holds none"),
        (
            {name: entry(data_offsets=[start, start + 16])["a"] for name, start in (("a", 0), ("b", 16))},
            32,
            r"x\.safetensors holds several arrays: a, b; choose one by .*x\.safetensors:NAME$",
        ),
        (entry(shape=[], data_offsets=[0, 4]), 4, r"x\.safetensors:a must hold rows; got a single value"),
        (entry(), 15, r"x\.safetensors must be a whole \.safetensors file: .*; write it again$"),
        (entry(), 17, r"x\.safetensors must be a whole \.safetensors file: .*; write it again$"),
    ],
)
def test_safetensors_that_hold_no_table(tmp_path: Path, header: Any, numbers: int, message: str) -> None:
    write_safetensors(tmp_path / "x.safetensors", header, numbers)
    with pytest.raises(ValueError, match=message):
        open_table(tmp_path / "x.safetensors", "x")


@pytest.mark.parametrize("content", [b"", b"1234", struct.pack("<Q", 9) + b"{}", b"PK" * 40])
def test_safetensors_without_a_header(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    message = r"x\.safetensors must be a whole \.safetensors file: .*header.*; write it again$"
    with pytest.raises(ValueError, match=message):
        open_table(tmp_path / "x.safetensors", "x")


def test_safetensors_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.safetensors").touch()
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(
        ValueError, match=r"^reading \.safetensors needs safetensors: pip install 'debiased-contrastive\[prior\]'$"
    ):
        open_table(tmp_path / "a.safetensors", "x")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from Linux's /proc")
def test_a_safetensors_file_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 2**20)
    array = table("f4", 2**18, 64)
    save_file({"a": array}, tmp_path / "a.safetensors")
    del array
    blocks = open_table(tmp_path / "a.safetensors", "x").blocks()
    next(blocks)
    before = resident()
    most = max(resident() for _ in blocks)
    assert most - before < 16 * 2**20, "of 64 MiB"


def resident() -> int:
    """Bytes in memory, those of mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
