// DeviceEvent: an event of a device with an owner, which ends with it.
#pragma once

namespace isotherm {

template <class Device>
class DeviceEvent {
 public:
  explicit DeviceEvent(Device& device) : device_(device), event_(device.create_event()) {}
  ~DeviceEvent() { device_.destroy_event(event_); }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  typename Device::Event get() const { return event_; }

 private:
  Device& device_;
  typename Device::Event event_;
};

}  // namespace isotherm
