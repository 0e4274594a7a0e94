// Packets that a fake device answers, for tests of what is around them. Made in
// src/gpu/udp/packet_engine_test.cc, so that the templates behind it are compiled once.
#pragma once

#include <cstdint>
#include <memory>

#include "gpu/udp/packet_device.h"

namespace isotherm {

// With a table of its own; ends the program where the device was used wrongly.
std::unique_ptr<PacketDevice> make_fake_packets(uint64_t seed, const PacketOptions& options);

}  // namespace isotherm
