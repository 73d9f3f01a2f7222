"""Tutorial: your own encoder and data: windows of a sensor, a Dataset, and the machine of each window."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import debiased_contrastive as dc
from debiased_contrastive.membership.knowledge import Knowledge
from debiased_contrastive.membership.labels import from_groups, from_labels

LENGTH, KINDS, MACHINES = 128, 6, 12


class Recordings(Dataset[tuple[Tensor, int]]):
    """Windows of noisy waves. Six kinds of wave are the classes; each kind comes from two of twelve machines."""

    def __init__(self, count: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.machines = torch.randint(MACHINES, (count,), generator=draw)
        self.kinds = self.machines % KINDS  # nobody knows them in practice: here they test what was learnt
        phase, speed, height = torch.rand(3, count, 1, generator=draw)
        place = torch.arange(LENGTH) / LENGTH * (4 + 3 * speed) + phase
        wave, ramp = torch.sin(2 * torch.pi * place), place % 1
        shapes = [wave, wave.sign(), 2 * ramp - 1, 1 - 2 * ramp, 4 * (ramp - 0.5).abs() - 1, wave.abs() * 2 - 1]
        chosen = torch.stack(shapes)[self.kinds, torch.arange(count)]
        self.windows = (0.5 + height) * chosen + 0.3 * torch.randn(count, LENGTH, generator=draw)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return self.windows[place], place  # the place tells the loss which window this is


class Encoder(nn.Module):
    """Any module does that makes one row of features of each input."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((1, 16), (16, 32), (32, 64)):
            layers += [nn.Conv1d(before, after, 7, stride=2, padding=3), nn.BatchNorm1d(after), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, windows: Tensor) -> Tensor:
        projected: Tensor = self.projector(self.features(windows.unsqueeze(1)))
        return projected


def view(windows: Tensor) -> Tensor:
    """A random view, which must not change the class: turned round in time, louder or softer, noisier."""
    moved = windows.roll(int(torch.randint(LENGTH, ())), 1)
    return moved * (0.5 + torch.rand(len(windows), 1)) + 0.3 * torch.randn_like(windows)


def train(data: Recordings, known: Knowledge | None) -> Encoder:
    torch.manual_seed(0)
    encoder = Encoder()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    loss = dc.DebiasedNTXentLoss(temperature=0.2, tau_plus=0.0)
    for _ in range(8):
        for windows, places in DataLoader(data, batch_size=256, shuffle=True, drop_last=True):
            told = known.arguments(places) if known else {}  # what is known about the windows of this batch
            value = loss(encoder(view(windows)), encoder(view(windows)), **told)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return encoder.eval()


@torch.no_grad()
def accuracy(encoder: Encoder, data: Recordings, new: Recordings) -> float:
    """Of the nearest class mean on new windows, in percent."""
    x, y = (nn.functional.normalize(encoder.features(each.windows.unsqueeze(1))) for each in (data, new))
    means = torch.stack([x[data.kinds == kind].mean(0) for kind in range(KINDS)])
    return 100 * ((y @ means.T).argmax(1) == new.kinds).double().mean().item()


def main() -> None:
    torch.set_num_threads(1)  # networks this small are faster on one
    data, new = Recordings(2000, seed=1), Recordings(1000, seed=2)

    biased = train(data, None)
    print(f"nothing known      {accuracy(biased, data, new):.1f} %")

    # Is it worth it to tell the loss the machine? 300 windows with a label answer that.
    with torch.no_grad():
        embeddings = biased(data.windows)
    labels = torch.where(torch.arange(len(data)) < 300, data.kinds, -1)  # -1 is unknown
    found = dc.audit(embeddings, labels=labels, groups=data.machines, temperature=0.2, batch_size=511)
    for source in found.sources:
        if source.share is not None and source.name == "groups":
            print(f"force share of the machines {source.share:+.2f}")

    told = train(data, from_groups(data.machines))
    print(f"machines known     {accuracy(told, data, new):.1f} %")
    print(f"all labels known   {accuracy(train(data, from_labels(data.kinds)), data, new):.1f} %")


if __name__ == "__main__":
    main()
