"""A learning switch for OpenFlow 1.3 on os-ken: where a station was heard is where packets for it go."""

import sys

from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet.ethernet import ethernet
from os_ken.lib.packet.packet import Packet
from os_ken.ofproto import ofproto_v1_3


class LearningSwitch(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.ports = {}

    def add_flow(self, datapath, priority, match, actions):
        parser, protocol = datapath.ofproto_parser, datapath.ofproto
        apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)
        datapath.send_msg(
            parser.OFPFlowMod(datapath=datapath, priority=priority, match=match, instructions=[apply])
        )

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, event):
        datapath = event.msg.datapath
        parser, protocol = datapath.ofproto_parser, datapath.ofproto
        self.ports = {}
        output = parser.OFPActionOutput(protocol.OFPP_CONTROLLER, protocol.OFPCML_NO_BUFFER)
        self.add_flow(datapath, 0, parser.OFPMatch(), [output])

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet(self, event):
        message = event.msg
        datapath, port = message.datapath, message.match["in_port"]
        parser, protocol = datapath.ofproto_parser, datapath.ofproto
        frame = Packet(message.data).get_protocol(ethernet)
        self.ports[frame.src] = port
        out = self.ports.get(frame.dst, protocol.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out)]
        if out != protocol.OFPP_FLOOD:
            self.add_flow(datapath, 1, parser.OFPMatch(in_port=port, eth_dst=frame.dst), actions)
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath,
                buffer_id=message.buffer_id,
                in_port=port,
                actions=actions,
                data=message.data,
            )
        )


if __name__ == "__main__":
    from os_ken import cfg

    cfg.CONF(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", sys.argv[1]], project="os_ken")
    AppManager.run_apps(["os_ken.controller.ofp_handler", __name__])
