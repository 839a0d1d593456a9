//! Tunnels: what is put before packets, and on which of their bits that depends.

use crate::cache::defect::Defect;
use crate::tests::{Bench, Sent};
use crate::{PortInfo, Settings, Tunnel};
use fulmar_packet::{Field, FlowKey, build, ethernet, ip};
use fulmar_port::vxlan::Outer;
use std::net::Ipv4Addr;

const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Three ports, of which the third is a tunnel.
fn bench(tunnel: Tunnel, flows: &[&str]) -> Bench {
    let bench = Bench::new(3, Settings::default());
    let info = PortInfo { tunnel: Some(tunnel), ..PortInfo::new("vx0", [2, 0, 0, 0, 0, 3]) };
    bench.switch.put_port(3, info, bench.now);
    flows.iter().for_each(|flow| bench.add(flow).expect(flow));
    bench
}

fn frame(source: u8, tos: u8) -> Vec<u8> {
    let mut key = FlowKey::default();
    key.set(Field::ETH_SOURCE, source.into());
    key.set(Field::ETH_TYPE, ethernet::IPV4.into());
    key.set(Field::IP_PROTOCOL, ip::UDP.into());
    key.set(Field::IP_TOS, tos.into());
    key.set(Field::IP_TTL, 7);
    build(&key, &[])
}

fn outers(sent: &Sent) -> Vec<Outer> {
    sent.encapsulated.iter().map(|(step, _)| step.outer).collect()
}

const OUTER: Outer =
    Outer { network: 42, remote: REMOTE, local: Ipv4Addr::UNSPECIFIED, tos: 0, ttl: 64, is_whole: true };

#[test]
fn a_packet_leaves_by_a_tunnel() {
    for actions in ["output:3", "normal", "all", "set_field:3->reg0,output:NXM_NX_REG0[]"] {
        let mut bench = bench(Tunnel::to(REMOTE, 42), &[]);
        bench.add(&format!("in_port=1 actions={actions}")).expect(actions);
        let sent = bench.send(1, &frame(1, 0));
        assert_eq!(outers(&sent), [OUTER], "{actions}");
        assert_eq!(sent.encapsulated[0].1, frame(1, 0), "{actions}");
    }
    let mut bench = bench(Tunnel::to(REMOTE, 42), &["in_port=1 actions=output(port=3,max_len=20)"]);
    assert_eq!(bench.send(1, &frame(1, 0)).encapsulated[0].0.length, Some(20));
}

#[test]
fn flows_choose_what_the_tunnel_does_not_say() {
    let tunnel = Tunnel { key: None, remote: None, local: None, ..Tunnel::to(REMOTE, 0) };
    let flows = [
        "in_port=1,dl_src=00:00:00:00:00:01 actions=set_field:0x1000007->tun_id,set_field:10.0.0.9->tun_dst,output:3",
        "in_port=1,dl_src=00:00:00:00:00:02 actions=load:8->NXM_NX_TUN_ID[],load:0x0a000008->NXM_NX_TUN_IPV4_DST[],\
         load:0x0a000001->NXM_NX_TUN_IPV4_SRC[],output:3",
        "in_port=1,dl_src=00:00:00:00:00:03 actions=output:3,output:2",
    ];
    let mut bench = bench(tunnel, &flows);
    let seven = Outer { network: 7, remote: Ipv4Addr::new(10, 0, 0, 9), ..OUTER };
    assert_eq!(outers(&bench.send(1, &frame(1, 0))), [seven]);
    let (remote, local) = (Ipv4Addr::new(10, 0, 0, 8), Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(outers(&bench.send(1, &frame(2, 0))), [Outer { network: 8, remote, local, ..OUTER }]);
    let nowhere = bench.send(1, &frame(3, 0));
    assert!(nowhere.encapsulated.is_empty(), "it is not said where to");
    assert_eq!(nowhere.ports(), [2]);
}

/// A switch that answers where a packet came from, and lets others through by what is known of their tunnel.
fn answering() -> Bench {
    let tunnel =
        Tunnel { key: None, remote: None, local: Some(Ipv4Addr::UNSPECIFIED), ..Tunnel::to(REMOTE, 0) };
    let flows = [
        "in_port=3,tun_id=5 actions=move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],in_port",
        "in_port=3,tun_id=6,tun_src=10.0.0.0/24,tun_dst=10.0.1.1 actions=output:2",
    ];
    bench(tunnel, &flows)
}

/// Whether each is answered by its own tunnel, also by what is remembered.
fn answers_each(bench: &mut Bench) -> bool {
    let ends = (1..5).chain(1..5).map(|last| Ipv4Addr::new(10, 0, 0, last));
    ends.into_iter().all(|remote| {
        outers(&bench.send_from(3, &frame(1, 0), 5, remote)) == [Outer { network: 5, remote, ..OUTER }]
    })
}

#[test]
fn what_is_known_of_a_tunnel_is_matched_and_used() {
    let mut bench = answering();
    assert!(answers_each(&mut bench));
    for _ in 0..2 {
        let mut ports = |key, from| bench.send_from(3, &frame(1, 0), key, from).ports();
        assert_eq!(ports(6, Ipv4Addr::new(10, 0, 0, 9)), [2]);
        assert!(ports(6, Ipv4Addr::new(10, 9, 0, 9)).is_empty());
        assert!(ports(7, Ipv4Addr::new(10, 0, 0, 9)).is_empty());
    }
}

#[test]
fn a_cache_that_confuses_tunnels_is_found() {
    let mut bench = answering();
    bench.forwarders[0].spoil(Defect::LeavesBitsOut);
    assert!(!answers_each(&mut bench));
}

/// What has come by tunnels of different keys, and goes on after its connection was looked for, or its label was taken away, by the key that
/// it came with.
#[test]
fn a_way_that_is_interrupted_keeps_to_its_tunnel() {
    let tunnel =
        Tunnel { key: None, remote: None, local: Some(Ipv4Addr::UNSPECIFIED), ..Tunnel::to(REMOTE, 0) };
    let labelled = |last: u8| {
        let mut inside = frame(last, 0);
        inside.splice(12..14, [0x88, 0x47, 0, 0, 0x11, 64]);
        inside
    };
    for (first, made) in [
        ("in_port=3,ip actions=ct(table=1)", &(|last| frame(last, 0)) as &dyn Fn(u8) -> Vec<u8>),
        ("in_port=3,mpls actions=pop_mpls:0x0800,resubmit(,1)", &labelled),
    ] {
        let mut bench = bench(
            tunnel,
            &[first, "table=1,tun_id=42 actions=output:1", "table=1,tun_id=43,ip actions=output:2"],
        );
        for _ in 0..2 {
            for (key, port) in [(42, 1), (43, 2), (44, 0)] {
                let ports = bench.send_from(3, &made(1), key, REMOTE).ports();
                assert_eq!(ports, if port == 0 { vec![] } else { vec![port] }, "{first}, key {key}");
            }
        }
    }
}

/// RFC 6040, section 4.1.
#[test]
fn congestion_is_told_outside() {
    let inherits = Tunnel { tos: None, ttl: None, ..Tunnel::to(REMOTE, 42) };
    let mut bench = bench(inherits, &["in_port=1 actions=output:3"]);
    for _ in 0..2 {
        for tos in [0, 1, 2, 3, 0xb8, 0xbb] {
            assert_eq!(outers(&bench.send(1, &frame(1, tos))), [Outer { tos, ttl: 7, ..OUTER }]);
        }
        assert_eq!(outers(&bench.send(1, &[0xff; 60])), [OUTER], "no IP");
    }
    let says = Tunnel { tos: Some(0x20), ttl: Some(3), ..inherits };
    let mut bench = self::bench(says, &["in_port=1 actions=output:3"]);
    for (inside, outside) in [(0xb8, 0x20), (0xb9, 0x21), (0xbb, 0x23)] {
        assert_eq!(outers(&bench.send(1, &frame(1, inside))), [Outer { tos: outside, ttl: 3, ..OUTER }]);
    }
}

#[test]
fn a_trace_tells_of_tunnels() {
    let mut key = FlowKey::default();
    key.set(Field::IN_PORT, 1);
    let bench = bench(Tunnel::to(REMOTE, 42), &["in_port=1 actions=output:3"]);
    let text = bench.switch.trace(&key, bench.now);
    assert!(
        text.ends_with("vxlan(port=3,tun_id=0x2a,src=0.0.0.0,dst=10.0.0.2,tos=0x0,ttl=64,df)\n"),
        "{text}"
    );
}
