"""torch.nn.Modules: the structured step is found, agrees with the judge, and the weights go back into the module."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from tests.bridges.judge import assert_structured_is_the_judge, rows

torch = pytest.importorskip("torch", reason="needs PyTorch: run make torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")  # torch's own


def near(module, x, **tolerance):
    """The bridge's outputs are the module's own, in float32."""
    bridge = scax.from_torch(module)
    with torch.no_grad():
        z = module(torch.from_numpy(np.array(x, np.float32))).numpy()
    found = bridge.apply(bridge.params, jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(found, z, **{"rtol": 2e-5, "atol": 2e-6, **tolerance})
    return bridge


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM, hidden=3, **options):
        super().__init__()
        self.rnn = kind(2, hidden, batch_first=True, **options)
        self.out = nn.Linear(hidden * (1 + options.get("bidirectional", False)), 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.out = nn.Linear(3, 4), nn.Linear(4, 2)
        self.place = nn.Parameter(0.1 * torch.randn(5, 4))
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.1)

    def forward(self, x):
        return self.out(self.encoder(self.enter(x) + self.place).mean(1))


def dense():
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)), (5,), {"0.weight": "5→4", "2.weight": "4→2"}


def convolutional():
    parts = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*parts, nn.Dropout(), nn.Linear(8, 3)), (1, 6, 6), {"6.weight": "8→3"}


def recurrent():
    return Recurrent(), (5, 2), {"out.weight": "3→1"}


def transformer():
    return Encoder(), (5, 3), {"out.weight": "4→2"}


@pytest.mark.parametrize("network", [dense, convolutional, recurrent, transformer], ids=lambda f: f.__name__)
def test_structured_step(network, x64):
    torch.manual_seed(0)
    module, shape, held = network()
    module, x = module.double().eval(), rows(6, *shape)
    with torch.no_grad():
        z = module(torch.from_numpy(np.array(x))).numpy()
    bridge = scax.from_torch(module)
    assert_structured_is_the_judge(bridge, bridge.params, x, z, {f"'{name}'": how for name, how in held.items()})


def test_weights_go_back_into_the_same_module():
    module = dense()[0]
    bridge = near(module, rows(4, 5))
    before = module[0].weight.detach().clone()
    assert bridge.load(jax.tree.map(lambda leaf: leaf + 1, bridge.params)) is module
    assert torch.equal(module[0].weight, before + 1)
    near(module, rows(4, 5))


def test_frozen_and_tied_parameters():
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 1))
    module[2].weight = module[0].weight
    module[3].bias.requires_grad_(False)
    bridge = near(module, rows(4, 4))
    assert sorted(bridge.params) == ["0.bias", "0.weight", "2.bias", "3.weight"]
    changed = {**bridge.params, "0.weight": 2 * bridge.params["0.weight"]}
    bridge.load(changed)
    x = rows(4, 4).astype(jnp.float32)
    with torch.no_grad():
        np.testing.assert_allclose(bridge.apply(changed, x), module(torch.from_numpy(np.array(x))), rtol=1e-5)


LAYERS = [
    (Recurrent(nn.GRU, num_layers=2, bidirectional=True), (4, 2)),
    (Recurrent(nn.RNN, bias=False), (4, 2)),
    (nn.Sequential(nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2), nn.GroupNorm(2, 4), nn.GELU(),
                   nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(12, 2), nn.LogSoftmax(-1)), (2, 9)),
    (nn.Sequential(nn.Conv2d(1, 2, 3, padding="same", dilation=2), nn.SiLU(), nn.AvgPool2d(2, padding=1),
                   nn.PReLU(2), nn.Flatten()), (1, 6, 6)),
    (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ELU(), nn.Softplus(), nn.LeakyReLU(), nn.Mish(),
                   nn.Hardswish(), nn.Softmax(-1), nn.BatchNorm1d(4), nn.Identity(), nn.Unflatten(1, (2, 2)),
                   nn.Flatten()), (3,)),
]  # fmt: skip


@pytest.mark.parametrize(("module", "shape"), LAYERS, ids=["gru", "rnn", "conv1d", "conv2d", "dense"])
def test_layers_give_what_torch_gives(module, shape):
    near(module.eval(), rows(3, *shape))


class Functions(nn.Module):
    """What people write in forward."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))
        self.register_buffer("mask", torch.tensor([True, False, True, True]))

    def forward(self, x):
        h = torch.einsum("bi,oi->bo", x, self.weight).masked_fill(~self.mask, 0.5)
        a, b = h.chunk(2, dim=1)
        h = torch.cat([a * torch.sigmoid(b), a.clamp(min=-0.2, max=0.3), (b**2).sum(1, keepdim=True)], dim=-1)
        h = torch.stack([h, h.roll(1, 1)], dim=2).permute(0, 2, 1).contiguous().view(x.size(0), -1)
        h = h + h.max(dim=1, keepdim=True).values - h.std(dim=1, keepdim=True) + torch.arange(h.shape[1]) / 10
        h = torch.where(h > 0, h, h.exp() - 1)
        h = torch.nn.functional.pad(h, (1, 2)).unsqueeze(1).expand(-1, 2, -1)
        return (h.mean(dim=(1,)) / (1 + h.norm(dim=(1, 2)).unsqueeze(-1)))[:, 1:-1].softmax(1)


def test_functions_give_what_torch_gives():
    torch.manual_seed(0)
    near(Functions(), rows(3, 3))


def test_compact():
    """A module declares its sizes, but few operators have them; where one has, the module is built anew."""

    def module(channels):
        return nn.Sequential(nn.Conv1d(2, channels, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * channels, 2))

    net = scax.from_torch(nn.Sequential(nn.Conv1d(2, 5, 3), nn.Tanh(), nn.Conv1d(5, 4, 3), nn.Flatten()))
    params, x = {name: np.array(leaf) for name, leaf in net.params.items()}, np.ones((3, 2, 6), np.float32)
    params["2.weight"][:, 1] = 0
    small = scax.compact(net, params, x)
    assert small.params["0.weight"].shape == (4, 2, 3)
    np.testing.assert_allclose(small.apply(x), net.apply(params, x), rtol=1e-5)

    net = scax.from_torch(module(5))
    params = {name: np.array(leaf) for name, leaf in net.params.items()}
    params["3.weight"].reshape(2, 5, 4)[:, 1] = 0
    with pytest.raises(ValueError, match="does not take params of other shapes"):
        scax.compact(net, params, x)
    small = scax.compact(net, params, x, build=lambda small: scax.from_torch(module(small["0.weight"].shape[0])))
    assert small.params["3.weight"].shape == (2, 16)
    np.testing.assert_allclose(small.apply(x), net.apply(params, x), rtol=1e-5)


def test_training_mode_is_refused():
    with pytest.raises(ValueError, match=r"BatchNorm1d '1' is in training mode and mixes the rows.*module\.eval\(\)"):
        scax.from_torch(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    with pytest.raises(ValueError, match=r"Dropout '1' is in training mode and draws random numbers"):
        scax.from_torch(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2)))
    with pytest.raises(ValueError, match=r"track_running_stats=True"):
        scax.from_torch(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False)).eval())


def test_what_cannot_be_bridged_is_named():
    bridge = scax.from_torch(nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (1, 2, 2)), nn.ConvTranspose2d(1, 1, 2)))
    with pytest.raises(ValueError, match="uses aten::conv_transpose2d, which has no translation"):
        bridge.apply(bridge.params, jnp.ones((2, 3)))

    class Branch(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    bridge = scax.from_torch(nn.Sequential(nn.Linear(3, 1), Branch()))
    with pytest.raises(ValueError, match=r"torch\.export cannot trace Sequential for rows of shape \(3,\)"):
        bridge.apply(bridge.params, jnp.ones((2, 3)))

    class Noisy(nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5)

    bridge = scax.from_torch(nn.Sequential(nn.Linear(3, 1), Noisy()).eval())
    with pytest.raises(ValueError, match="dropout"):
        bridge.apply(bridge.params, jnp.ones((2, 3)))
    with pytest.raises(TypeError, match=r"weight is torch.bfloat16.*module\.float\(\)"):
        scax.from_torch(nn.Linear(3, 1).bfloat16())
    with pytest.raises(TypeError, match="module must be a torch"):
        scax.from_torch(3)
