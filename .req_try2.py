import json,sys,time
from pathlib import Path
sys.path[:0]=["tests"]
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.requests import load as L
from emulator.model.request_load import RequestLoad
from emulator.analysis.request_figures import *
from emulator.control.appliance import Appliance
from emulator.kernel.netlink import NetlinkKernel
from support.lab_cells import spec
k=NetlinkKernel(); a=Appliance(k, Path("/tmp/x")); 
one=spec(rate_mbit=1000, rtt_ms=80)
a.up(one.topology)
hub,site=NamespaceHost("near"),NamespaceHost("far")
addr=str(one.topology.address("far").ip)
for w in eval(sys.argv[1]):
    load=RequestLoad(**w)
    r=L.run(L.RequestTest(load,10,80*10**6),hub,site,addr)
    f=RequestFigures.of(r.client,r.server)
    print(load.part, load.title, f.per_s(load), round_trip_ceiling(load,80*10**6), line_ceiling(load,one.path), f.times.p50_ns,f.times.p99_9_ns,f.times.max_ns, f.setup.p50_ns, f.transfer.p50_ns)
try: L.run(L.RequestTest(load,10,80*10**6,"nosuch"),hub,site,addr)
except Exception as e: print(repr(e)[:400])
try: L.run(L.RequestTest(load,10,80*10**6),hub,site,"10.99.99.99")
except Exception as e: print(repr(e)[:400])
a.down()
