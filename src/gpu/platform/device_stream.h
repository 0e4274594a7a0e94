// DeviceStream: a stream of a device with an owner, which ends with it.
#pragma once

namespace isotherm {

template <class Device>
class DeviceStream {
 public:
  explicit DeviceStream(Device& device) : DeviceStream(device, device.create_stream()) {}
  DeviceStream(Device& device, typename Device::Stream stream) : device_(device), stream_(stream) {}
  ~DeviceStream() { device_.destroy_stream(stream_); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  typename Device::Stream get() const { return stream_; }

 private:
  Device& device_;
  typename Device::Stream stream_;
};

}  // namespace isotherm
