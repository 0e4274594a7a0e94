// The frames of a network interface, from the source that an option names.
//
// Threads. Any. Errors. As of net/packets/ring_frames.h and net/packets/xdp_frames.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/packets/frame_source.h"
#include "net/packets/ring_frames.h"
#include "net/packets/xdp_frames.h"
#include "net/server_options.h"

namespace isotherm::net {

inline std::unique_ptr<FrameSource> open_interface(PacketSource source,
                                                   const std::string& interface, uint16_t port) {
  if (source == PacketSource::xdp) return std::make_unique<XdpFrames>(interface, port);
  return std::make_unique<RingFrames>(interface, port);
}

}  // namespace isotherm::net
