"""The encoder of frames: sizes of the protocol, initial weights."""

import pytest
import torch

from debiased_contrastive.control.networks import Convolutions, frame_differences, make_head, to_unit_range


def test_the_sizes_are_those_of_the_protocol() -> None:
    convolutions = Convolutions(9, 84)
    assert convolutions.feature_dim == 32 * 35 * 35
    frames = torch.randint(256, (2, 9, 84, 84), dtype=torch.uint8)
    features = convolutions(to_unit_range(frames))
    assert features.shape == (2, convolutions.feature_dim)
    assert make_head(convolutions, 50)(features).shape == (2, 50)
    # 20, 9, 4, 2
    assert Convolutions(9, 20, filters=8, layers=3, strided=2).feature_dim == 8 * 2 * 2
    torch.testing.assert_close(to_unit_range(frames), frames / 255)


def test_motion_is_the_newest_frame_and_changes() -> None:
    old, middle, new = (torch.rand(2, 3, 5, 5) for _ in range(3))
    x = torch.cat([old, middle, new], 1)
    found = frame_differences(x, 3)
    torch.testing.assert_close(found, torch.cat([4 * (middle - old), 4 * (new - middle), new - 0.5], 1))
    # Nothing is lost.
    again = found[:, 6:] + 0.5
    torch.testing.assert_close(again - found[:, 3:6] / 4, middle)


def test_weights_begin_orthogonal_and_in_the_centre() -> None:
    torch.manual_seed(0)
    convolutions = Convolutions(9, 20, filters=8, layers=2)
    for layer in convolutions.layers:
        assert isinstance(layer, torch.nn.Conv2d)
        weight = layer.weight.detach()
        centre = weight[:, :, 1, 1].clone()
        weight[:, :, 1, 1] = 0
        assert not weight.any()
        torch.testing.assert_close(centre @ centre.T, 2 * torch.eye(8))
        assert layer.bias is not None
        assert not layer.bias.any()


def test_with_several_strides_weights_begin_orthogonal_over_the_whole_filter() -> None:
    torch.manual_seed(0)
    for layer in Convolutions(3, 30, filters=8, layers=2, strided=2).layers:
        assert isinstance(layer, torch.nn.Conv2d)
        flat = layer.weight.detach().flatten(1)
        torch.testing.assert_close(flat @ flat.T, 2 * torch.eye(8))
        assert bool(flat.all())


def test_frames_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="for 4 layers of 3 x 3 filters, 1 of them with stride 2; got 14"):
        Convolutions(9, 14)
