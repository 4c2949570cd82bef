import sys,tempfile,time,os,collections
sys.path.insert(0,'tests/lab')
from measuring import *
import subprocess
n=collections.Counter()
o=subprocess.Popen.__init__
def i(self,argv,**k):
    n[' '.join(map(str,argv))[:30]]+=1
    return o(self,argv,**k)
subprocess.Popen.__init__=i
with tempfile.TemporaryDirectory() as d:
    for _ in range(int(sys.argv[1])): measure(spec(duration_s=1), Path(d))
print(n)
