package nodes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// nodeadmArchive is what Karpenter generates from an EC2NodeClass with a NodeConfig and a custom script.
const nodeadmArchive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config: {maxPods: 29}
    flags: ["--node-labels=mine=1"]
--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "hello ${USER:-nobody}"
--//
Content-Type: application/node.eks.aws

# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: https://127.0.0.1:6443
    certificateAuthority: c29tZSBjZXJ0aWZpY2F0ZQ==
    cidr: 10.100.0.0/16
    name: demo
  instance:
    localStorage: {}
  kubelet:
    config:
      clusterDNS: [10.100.0.10]
      registerWithTaints:
      - effect: NoExecute
        key: karpenter.sh/unregistered
      - effect: NoSchedule
        key: team
        value: data
    flags:
    - --node-labels=karpenter.sh/capacity-type=spot,karpenter.sh/nodepool=default
--//--
`

const bottlerocketSettings = `[settings]
[settings.kubernetes]
api-server = 'https://127.0.0.1:6443'
cluster-name = 'demo'
max-pods = 58

[settings.kubernetes.node-labels]
'karpenter.sh/nodepool' = 'default'

[settings.kubernetes.node-taints]
'karpenter.sh/unregistered' = [':NoExecute']
team = ['data:NoSchedule']
`

const bootstrapScript = `#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://127.0.0.1:6443' --b64-cluster-ca 'Zm9v' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="karpenter.sh/nodepool=default" --register-with-taints="karpenter.sh/unregistered:NoExecute,team=data:NoSchedule" --max-pods=110'
`

func TestParseUserData(t *testing.T) {
	const endpoint = "https://127.0.0.1:6443"
	taints := []corev1.Taint{
		{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
		{Key: "team", Value: "data", Effect: corev1.TaintEffectNoSchedule},
	}
	pool := map[string]string{"karpenter.sh/nodepool": "default"}
	cases := map[string]struct {
		userData string
		want     join
		wantErr  string
	}{
		"nodeadm: Karpenter's part counts over the user's": {
			userData: nodeadmArchive,
			want: join{
				Endpoint: endpoint,
				Labels:   map[string]string{"mine": "1", "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"},
				Taints:   taints,
				MaxPods:  29,
			},
		},
		"bottlerocket": {
			userData: bottlerocketSettings,
			want:     join{Endpoint: endpoint, Labels: pool, Taints: taints, MaxPods: 58},
		},
		"bootstrap.sh": {
			userData: bootstrapScript,
			want:     join{Endpoint: endpoint, Labels: pool, Taints: taints, MaxPods: 110},
		},
		"a script of a custom image": {userData: "#!/bin/bash\necho hello\n"},
		"nothing at all":             {},
		"a broken NodeConfig": {
			userData: strings.Replace(nodeadmArchive, "kind: NodeConfig", "kind: [", 1),
			wantErr:  "read the NodeConfig in user data",
		},
		"broken settings": {userData: "[settings\n", wantErr: "Bottlerocket"},
		"an archive of one part": {
			userData: "Content-Type: text/x-shellscript\n\n#!/bin/bash\n",
			wantErr:  "not multipart",
		},
		"a taint without an effect": {userData: "kubelet --register-with-taints=team=data", wantErr: `taint "team=data" has no effect`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseUserData(tc.userData)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("join (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseUserData(f *testing.F) {
	for _, seed := range []string{nodeadmArchive, bottlerocketSettings, bootstrapScript} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, userData string) {
		if got, err := parseUserData(userData); err != nil && (got.Labels != nil || got.Taints != nil) {
			t.Errorf("an error together with a result: %v, %+v", err, got)
		}
	})
}
