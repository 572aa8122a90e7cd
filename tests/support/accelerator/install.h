#pragma once

namespace lockstep::tests::accelerator {

/// Makes `num_devices` simulated devices the accelerator of this process (PyTorch's device type PrivateUse1). Memory of
/// the device faults when the host touches it; operators are carried out on the CPU; see Runtime for what is found out.
/// Once, before the first tensor.
void install(int num_devices);

}  // namespace lockstep::tests::accelerator
