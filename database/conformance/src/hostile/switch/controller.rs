//! What controllers that mean no good say: messages as OpenFlow 1.3 lays them out, in any order, with numbers that are there or not.

use super::Attacker;
use fulmar_node::Random;
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::{Body, Message, NICIRA, ONF};
use serde_json::json;

/// OpenFlow 1.3, as on the wire.
const V13: u8 = 4;

const FLOWS: [&str; 20] = [
    "actions=drop",
    "actions=normal",
    "actions=flood",
    "actions=controller:65535",
    "priority=9,tcp,nw_src=10.0.0.0/8,tp_dst=80 actions=output:1,output:2,local",
    "priority=8,ipv6,ipv6_dst=fd09::/64 actions=dec_ttl,in_port",
    "table=1,dl_vlan=7 actions=pop_vlan,resubmit(,1)",
    "actions=resubmit(,0),resubmit(,0),resubmit(,0)",
    "actions=goto_table:1",
    "table=1,actions=goto_table:2",
    "ip actions=ct(commit,zone=1,table=1,nat(src=10.0.0.1-10.0.0.9))",
    "ct_state=+trk+est,ip actions=ct(table=0)",
    "actions=group:1",
    "actions=meter:1,normal",
    "actions=learn(table=0,hard_timeout=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
    "send_flow_rem,idle_timeout=1,hard_timeout=65535 actions=push_vlan:0x8100,set_field:4103->vlan_vid,all",
    "conj_id=1,ip actions=clear_actions,write_actions(output:1),write_metadata:0xffffffffffffffff",
    "ip,nw_src=10.0.0.1 actions=conjunction(1,1/2)",
    "reg0=0xffffffff actions=move:NXM_NX_REG0[]->NXM_NX_REG1[],push:NXM_NX_REG0[]",
    "check_overlap,arp,arp_op=1 actions=set_queue:4294967295,controller:0",
];

/// One that is connected.
pub(super) struct Controller {
    /// Of OpenFlow, as it says.
    version: u8,
    xid: u32,
}

impl Controller {
    pub(super) fn new(random: &mut Random) -> Self {
        Self { version: if random.one_in(6) { 1 } else { V13 }, xid: 0 }
    }

    /// What it says first, which may be no hello.
    pub(super) fn hello(&self, random: &mut Random) -> Vec<u8> {
        match random.below(10) {
            0 => self.framed(0, &[0, 1, 0xff, 0xff]),
            1 => vec![0xff; random.index(20)],
            2 => Vec::new(),
            _ => self.framed(0, &[]),
        }
    }

    fn framed(&self, kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(8 + body.len()).unwrap_or(u16::MAX);
        [&[self.version, kind][..], &length.to_be_bytes(), &self.xid.to_be_bytes(), body].concat()
    }

    fn message(&mut self, random: &mut Random) -> Vec<u8> {
        self.xid = one(random, [1, 1, 2, self.xid.wrapping_add(1), u32::MAX]);
        let mut message = self.right(random);
        if random.one_in(6) {
            // Into a bundle, which may not have been begun.
            let (bundle, flags) = (one(random, [1, 2, u32::MAX]), one(random, [0, 1, 3, u16::MAX]));
            let head = [ONF, 2301, bundle].map(u32::to_be_bytes).concat();
            message = self.framed(4, &[&head[..], &[0; 2], &flags.to_be_bytes(), &message].concat());
        }
        if random.one_in(6) && message.len() > 8 {
            let at = 8 + random.index(message.len() - 8);
            message[at] = one(random, [0, 1, 0x7f, 0x80, 0xff]);
        }
        if random.one_in(30) && message.len() > 8 {
            message.truncate(8 + random.index(message.len() - 8));
            let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
            message[2..4].copy_from_slice(&length.to_be_bytes());
        }
        message
    }

    /// A message that keeps all rules but those of what there is.
    fn right(&self, random: &mut Random) -> Vec<u8> {
        let mut body = Vec::new();
        let mut put = |bytes: &[u8]| body.extend_from_slice(bytes);
        let (port, group, meter) = (port(random), group(random), meter(random));
        let kind = match random.below(24) {
            0..8 => return self.flow(random),
            8 => one(random, [5, 7, 20, 26]),
            9 => {
                put(&vec![7; random.index(4_000)]);
                2
            }
            10 => {
                put(&one(random, [0_u32, 1, 2, 3, 4]).to_be_bytes());
                put(&[0; 4]);
                put(&one(random, [0, 1, 2, 1 << 63, u64::MAX]).to_be_bytes());
                24
            }
            11 => {
                put(&[0, one(random, [0, 1, 3])]);
                put(&one(random, [0, 128, u16::MAX]).to_be_bytes());
                9
            }
            12 => {
                (0..6).for_each(|_| put(&one(random, [0_u32, 7, u32::MAX]).to_be_bytes()));
                28
            }
            13 | 14 => {
                put(&[0, one(random, [0, 1, 2, 3]), one(random, [0, 1, 2, 3, 4]), 0]);
                put(&group.to_be_bytes());
                for _ in 0..random.below(4) {
                    // Of one action: out of a port, or to a group, which may be this one.
                    let leaves = random.one_in(2);
                    let length: u16 = if leaves { 32 } else { 24 };
                    put(&length.to_be_bytes());
                    put(&one(random, [0, 1, u16::MAX]).to_be_bytes());
                    put(&port.to_be_bytes());
                    put(&group.to_be_bytes());
                    put(&[0; 4]);
                    if leaves {
                        put(&[0, 0, 0, 16]);
                        put(&port.to_be_bytes());
                        put(&[0xff, 0xff, 0, 0, 0, 0, 0, 0]);
                    } else {
                        put(&[0, 22, 0, 8]);
                        put(&one(random, [1_u32, 2, 3]).to_be_bytes());
                    }
                }
                15
            }
            15 => {
                put(&[0, one(random, [0, 1, 2]), 0, one(random, [1, 2, 5, 13, 15])]);
                put(&meter.to_be_bytes());
                for _ in 0..random.below(3) {
                    put(&[0, 1, 0, 16]);
                    put(&one(random, [0_u32, 1, 1_000, u32::MAX]).to_be_bytes());
                    put(&one(random, [0_u32, 1, u32::MAX]).to_be_bytes());
                    put(&[0; 4]);
                }
                29
            }
            16 | 17 => {
                put(&u32::MAX.to_be_bytes());
                put(&port.to_be_bytes());
                put(&[0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16]);
                put(&one(random, [1_u32, 0xffff_fff9, 0xffff_fffb, 0xffff_fffd, 0xffff_fffe]).to_be_bytes());
                put(&[0xff, 0xff, 0, 0, 0, 0, 0, 0]);
                put(&vec![one(random, [0, 8, 0x45, 0xff]); random.index(2_000)]);
                13
            }
            18 => {
                put(&port.to_be_bytes());
                put(&[0; 4]);
                put(&one(random, [[0; 6], [2, 0, 0, 0, 0, 1], [0xff; 6]]));
                put(&[0; 2]);
                (0..3).for_each(|_| put(&one(random, [0_u32, 1, 0x65, u32::MAX]).to_be_bytes()));
                put(&[0; 4]);
                16
            }
            19 => {
                put(&[table(random), 0, 0, 0]);
                put(&one(random, [0_u32, 3, u32::MAX]).to_be_bytes());
                17
            }
            20 => {
                put(&[ONF, 2300, one(random, [1, 2, u32::MAX])].map(u32::to_be_bytes).concat());
                put(&[0, one(random, [0, 2, 4, 4, 6, 9]), 0, one(random, [0, 1, 2, 3])]);
                4
            }
            21 => {
                let (subtype, value) = (one(random, [2, 10, 12, 16, 19, 20, 21, 28]), random.below(4));
                put(&[NICIRA, subtype].map(u32::to_be_bytes).concat());
                put(&value.to_be_bytes());
                4
            }
            22 => {
                put(&port.to_be_bytes());
                put(&[0; 4]);
                22
            }
            _ => {
                let question = one(random, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, u16::MAX]);
                put(&question.to_be_bytes());
                put(&[0, one(random, [0, 0, 0, 1]), 0, 0, 0, 0]);
                match question {
                    1 | 2 => {
                        put(&[table(random), 0, 0, 0]);
                        put(&port.to_be_bytes());
                        put(&group.to_be_bytes());
                        put(&[0; 4]);
                        (0..2).for_each(|_| put(&one(random, [0, 1, u64::MAX]).to_be_bytes()));
                        put(&[0, 1, 0, 4, 0, 0, 0, 0]);
                    }
                    4 => put(&[port, 0].map(u32::to_be_bytes).concat()),
                    5 => put(&[port, u32::MAX].map(u32::to_be_bytes).concat()),
                    6 => put(&[group, 0].map(u32::to_be_bytes).concat()),
                    9 | 10 => put(&[meter, 0].map(u32::to_be_bytes).concat()),
                    // A flow monitor: which, how, where to, which table, and no match.
                    u16::MAX => {
                        put(&[NICIRA, 2].map(u32::to_be_bytes).concat());
                        put(&one(random, [1_u32, 2, u32::MAX]).to_be_bytes());
                        put(&one(random, [0x07_u16, 0x0f, 0x3f, u16::MAX]).to_be_bytes());
                        put(&[0xff, 0xff, 0, 0, table(random), 0, 0, 0, 0, 0]);
                    }
                    _ => {}
                }
                18
            }
        };
        self.framed(kind, &body)
    }

    /// One of the flows, to be added, changed or removed.
    fn flow(&self, random: &mut Random) -> Vec<u8> {
        let flow: FlowMod = one(random, FLOWS).parse().expect("it is one");
        let mut bytes = Vec::new();
        Message { xid: self.xid, body: Body::FlowMod(flow) }.encode(&mut bytes).expect("it is short");
        bytes[0] = self.version;
        // Of which table, and what becomes of it.
        if random.one_in(3) {
            bytes[24] = table(random);
            bytes[25] = one(random, [0, 1, 2, 3, 3, 4, 5]);
        }
        bytes
    }
}

impl Attacker for Controller {
    fn say(&mut self, random: &mut Random) -> Vec<u8> {
        self.message(random)
    }
}

/// One who asks as `ovs-appctl` does.
pub(super) struct Curious;

impl Attacker for Curious {
    fn say(&mut self, random: &mut Random) -> Vec<u8> {
        question(random)
    }
}

fn question(random: &mut Random) -> Vec<u8> {
    let method = one(
        random,
        [
            "ofproto/trace",
            "fdb/show",
            "dpctl/show",
            "dpctl/dump-flows",
            "dpctl/dump-conntrack",
            "version",
            "",
        ],
    );
    let packet = one(
        random,
        [
            "in_port=1,tcp,tp_dst=22",
            "in_port=4294967295",
            "ip,nw_ttl=0",
            "dl_vlan=4096",
            "\u{1b}[2J",
            "tcp,tcp,tcp",
        ],
    );
    let bridge = one(random, ["br0", "br1", "../br0", ""]);
    let arguments = [bridge, packet, packet];
    let asked = &arguments[..random.index(4)];
    json!({"method": method, "params": asked, "id": random.next()}).to_string().into_bytes()
}

fn one<T: Copy, const N: usize>(random: &mut Random, of: [T; N]) -> T {
    of[random.index(N)]
}

fn port(random: &mut Random) -> u32 {
    one(random, [0, 1, 2, 0xffff_ff00, 0xffff_fff8, 0xffff_fffb, 0xffff_fffd, 0xffff_fffe, u32::MAX])
}

fn group(random: &mut Random) -> u32 {
    one(random, [1, 1, 2, 3, 0xffff_ff00, 0xffff_fffc, u32::MAX])
}

fn meter(random: &mut Random) -> u32 {
    one(random, [0, 1, 1, 2, 0xffff_0000, 0xffff_fffd, u32::MAX])
}

fn table(random: &mut Random) -> u8 {
    one(random, [0, 0, 1, 2, 253, 254, 255])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flows_are_some() {
        for flow in FLOWS {
            assert!(flow.parse::<FlowMod>().is_ok(), "{flow}: {:?}", flow.parse::<FlowMod>());
        }
    }

    /// Most of what is said is understood, so that it is the switch that is tried, and not the reader alone.
    #[test]
    fn most_messages_can_be_read() {
        let mut random = Random::new(1);
        let controller = Controller { version: V13, xid: 1 };
        let read = (0..1_000).filter(|_| Message::decode(&controller.right(&mut random)).is_ok()).count();
        assert!(read > 800, "{read} of 1000");
    }
}
