# Turns what old_fixture.txt has left in a directory into a file of testdata/old: old_fixture.py DIRECTORY RELEASE FILE
import os,sys,re,glob
src,release,out=sys.argv[1],sys.argv[2],sys.argv[3]
work=open(src+'/work').read().strip(); end=open(src+'/endpoint').read().strip(); ver=open(src+'/version').read().strip()
boot=open('/proc/sys/kernel/random/boot_id').read().strip()
base=end.rsplit('/graphql',1)[0]
def fix(s):
    s=s.replace(work,'$WORK').replace(end,'$LINEAR_ENDPOINT').replace(base,'$LINEAR_URL').replace(boot,'11111111-2222-4333-8444-555555555555')
    s=re.sub(r'/tmp/symphony-[a-z]*-?\d+','/usr/lib',s)
    s=re.sub(r'/tmp/[a-z-]*\d{6,}','/usr/lib',s)
    return s
files={}
files['state.sql']=fix(open(src+'/state.sql').read())
for f in sorted(glob.glob(src+'/runs/*/*')):
    if f.endswith('tree'): continue
    files['state/runs/'+f[len(src)+6:]]=fix(open(f).read())
for d,_,names in os.walk(src+'/ws'):
    for n in sorted(names):
        p=os.path.join(d,n); rel=p[len(src)+1:]
        if '/.git/' in rel or rel.endswith('.lock') or rel.endswith('.git.note') or os.path.islink(p): continue
        if '/projects/' in rel: rel='ws/.symphony/projects/PROJECT.json'
        try: files[rel]=fix(open(p).read())
        except UnicodeDecodeError: print('skip',rel)
with open(out,'w') as f:
    f.write('# The state directory and the workspaces of symphony %s, with schema %s, while its workers were at work.\n'%(release,ver))
    for n in sorted(files):
        t=files[n]
        if not t.endswith('\n'): t+='\n'
        f.write('-- %s --\n%s'%(n,t))
