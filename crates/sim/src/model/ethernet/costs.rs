//! The costs of sockets over Ethernet.

use hikyaku_nic::time::Time;

use crate::model::costs::costs;

costs! {
    /// UDP over Ethernet.
    pub struct Ethernet from (network, interface, host) {
        /// The rate of a wire.
        rate: network.rate("link_rate"),
        /// From a frame's last byte at the switch to its first byte behind the switch.
        switch: network.time("hop"),
        /// Payload of a frame after the IP header.
        frame_bytes: interface.bytes("frame"),
        /// The other bytes of a frame: preamble, headers, checksum, gap.
        frame_extra_bytes: interface.bytes("frame_extra"),
        /// Processor time to send a datagram, system call included.
        send: host.time("send"),
        /// Processor time to receive a datagram: interrupt, stack, wake-up.
        receive: host.time("receive"),
    }
}

impl Ethernet {
    /// The time for which the frames of a datagram occupy a wire.
    pub fn on_the_wire(&self, bytes: u64) -> Time {
        let frames = bytes.div_ceil(self.frame_bytes).max(1);
        self.rate.time(bytes + frames * self.frame_extra_bytes)
    }

    /// The time from the start of a datagram on its sender's wire until the switch passes it on. A
    /// switch first receives a whole frame.
    pub fn to_the_switch(&self, bytes: u64) -> Time {
        self.on_the_wire(bytes.min(self.frame_bytes)) + self.switch
    }
}
