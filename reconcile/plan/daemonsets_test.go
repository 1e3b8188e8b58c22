package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// daemonSet decodes a DaemonSet from a pod spec.
func daemonSet(t *testing.T, spec string) appsv1.DaemonSet {
	t.Helper()
	set := appsv1.DaemonSet{}
	set.Namespace, set.Name = "kube-system", "node"
	set.Status.DesiredNumberScheduled, set.Status.ObservedGeneration = 1, 1
	if err := yaml.UnmarshalStrict([]byte(spec), &set.Spec.Template.Spec); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestNodeDaemonSets: a DaemonSet's purpose is recognized by images, sockets and folders as in upstream's charts,
// whatever its name.
func TestNodeDaemonSets(t *testing.T) {
	const registers = `{name: registrar, image: "public.ecr.aws/eks-distro/kubernetes-csi/node-driver-registrar/csi-node-driver-registrar:v2.13"}`
	cases := map[string]struct {
		spec    string
		drivers []string
		// asleep reports whether it runs on no node.
		asleep bool
		want   string
	}{
		"EBS CSI of before chart 1.37": {
			spec: `
tolerations: [{key: CriticalAddonsOnly, operator: Exists}, {operator: Exists, effect: NoExecute, tolerationSeconds: 300}]
containers: [{name: ebs-plugin, image: "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/aws-ebs-csi-driver:v1.36.0"}, ` + registers + `]
volumes: [{name: plugin-dir, hostPath: {path: /var/lib/kubelet/plugins/ebs.csi.aws.com/}}]`,
			drivers: []string{"ebs.csi.aws.com"},
			want:    "DaemonSet kube-system/node (CSI driver ebs.csi.aws.com) is evicted",
		},
		"EBS CSI as the add-on": {
			spec: `
tolerations: [{operator: Exists}]
containers: [{name: ebs-plugin, image: aws-ebs-csi-driver@sha256:1234}]`,
			want: "DaemonSet kube-system/node (CSI driver ebs.csi.aws.com) stays",
		},
		"EBS CSI with Karpenter's toleration": {
			spec: `
tolerations: [{key: karpenter.sh/disrupted, operator: Exists, effect: NoSchedule}]
containers: [{name: ebs-plugin, image: localhost:5000/aws-ebs-csi-driver}]`,
			want: "DaemonSet kube-system/node (CSI driver ebs.csi.aws.com) stays",
		},
		"a driver that only its CSIDriver names": {
			spec: `
containers: [{name: plugin, image: example.com/storage}]
volumes: [{name: socket, hostPath: {path: /var/lib/kubelet/csi/disk.example.com}}]`,
			drivers: []string{"disk.example.com"},
			want:    "DaemonSet kube-system/node (CSI driver disk.example.com) is evicted",
		},
		"a driver that only the registrar tells": {
			spec: `
containers: [` + registers + `]
volumes: [{name: socket, hostPath: {path: /var/lib/kubelet/plugins/disk.example.com}}, {name: registry, hostPath: {path: /var/lib/kubelet/plugins_registry}}]`,
			want: "DaemonSet kube-system/node (CSI driver disk.example.com) is evicted",
		},
		"a driver of no name": {
			spec: `containers: [` + registers + `]`,
			want: "DaemonSet kube-system/node (a CSI driver) is evicted",
		},
		"aws-node": {
			spec: `
tolerations: [{operator: Exists}]
containers: [{name: aws-node, image: "602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon-k8s-cni:v1.19.0"}]`,
			want: "DaemonSet kube-system/node (a CNI plugin) stays",
		},
		"Cilium with tolerations of its own": {
			spec: `
tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]
containers: [{name: cilium-agent, image: "quay.io/cilium/cilium:v1.18.2@sha256:1234"}]`,
			want: "DaemonSet kube-system/node (a CNI plugin) is evicted",
		},
		"Calico": {
			spec: `
tolerations: [{effect: NoSchedule, operator: Exists}, {key: CriticalAddonsOnly, operator: Exists}, {effect: NoExecute, operator: Exists}]
containers: [{name: calico-node, image: docker.io/calico/node:v3.30.0}]`,
			want: "DaemonSet kube-system/node (a CNI plugin) stays",
		},
		"a plugin of another name, by its folder": {
			spec: `
containers: [{name: flannel, image: example.com/net}]
volumes: [{name: cni, hostPath: {path: /opt/cni/bin/}}]`,
			want: "DaemonSet kube-system/node (a CNI plugin) is evicted",
		},
		"Cilium's operator is no plugin": {spec: `containers: [{name: operator, image: quay.io/cilium/operator-aws}]`},
		"a log shipper": {
			spec: `
containers: [{name: logs, image: example.com/fluent-bit}]
volumes: [{name: logs, hostPath: {path: /var/log}}]`,
			drivers: []string{"ebs.csi.aws.com"},
		},
		"one that runs on no node, as that for Windows": {
			spec: `containers: [{name: ebs-plugin, image: aws-ebs-csi-driver}]`, asleep: true,
		},
		"one that runs on managed node groups only": {
			spec: `
nodeSelector: {eks.amazonaws.com/nodegroup: system}
containers: [{name: ebs-plugin, image: aws-ebs-csi-driver}]`,
		},
		"one that is kept off Karpenter's nodes": {
			spec: `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}}
containers: [{name: ebs-plugin, image: aws-ebs-csi-driver}]`,
		},
		"one that is kept off Fargate": {
			spec: `
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: eks.amazonaws.com/compute-type, operator: NotIn, values: [fargate]}]}]}}}
containers: [{name: ebs-plugin, image: aws-ebs-csi-driver}]`,
			want: "DaemonSet kube-system/node (CSI driver ebs.csi.aws.com) is evicted",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set := daemonSet(t, c.spec)
			if c.asleep {
				set.Status.DesiredNumberScheduled = 0
			}
			var words []string
			for _, found := range plan.NodeDaemonSets([]appsv1.DaemonSet{set}, c.drivers) {
				if found.Tolerates {
					words = append(words, found.String()+" stays")
				} else {
					words = append(words, found.String()+" is evicted")
				}
			}
			if diff := cmp.Diff(c.want, strings.Join(words, "; ")); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThePatchAddsToTheTolerations: the patch appends to the list, and creates it if it is missing.
func TestThePatchAddsToTheTolerations(t *testing.T) {
	const toleration = `{"key":"karpenter.sh/disrupted","operator":"Exists","effect":"NoSchedule"}`
	for spec, want := range map[string]string{
		`containers: [{name: a, image: cilium/cilium}]`:                                              `kubectl patch daemonset node -n kube-system --type=json -p '[{"op":"add","path":"/spec/template/spec/tolerations","value":[` + toleration + `]}]'`,
		`{containers: [{name: a, image: cilium/cilium}], tolerations: [{key: a, operator: Exists}]}`: `kubectl patch daemonset node -n kube-system --type=json -p '[{"op":"add","path":"/spec/template/spec/tolerations/-","value":` + toleration + `}]'`,
	} {
		found := plan.NodeDaemonSets([]appsv1.DaemonSet{daemonSet(t, spec)}, nil)
		if len(found) != 1 || found[0].Patch() != want {
			t.Errorf("%s: %+v", spec, found)
		}
	}
}

// TestGuardOfDaemonSets: changes that terminate nodes wait for the toleration if the setting says so, and others
// proceed.
func TestGuardOfDaemonSets(t *testing.T) {
	evicted := plan.DaemonSets{Found: []plan.NodeDaemonSet{{Namespace: "kube-system", Name: "ebs-csi-node", CSI: true}}}
	hold := func(c *drawnCluster) { c.policy.Guard.IntolerantDaemonSets = v1alpha1.IntolerantDaemonSetsHold }
	for name, test := range map[string]struct {
		sets  plan.DaemonSets
		given func(*drawnCluster)
		nodes []plan.NodeClaim
		git   []string
		want  []string
	}{
		"a removal, only reported": {sets: evicted, nodes: claims("a", 1), git: []string{pool("b", "default")}, want: []string{"Remove NodePool/a"}},
		"a removal":                {sets: evicted, given: hold, nodes: claims("a", 1), git: []string{pool("b", "default")}, want: []string{"Hold NodePool/a IntolerantDaemonSets"}},
		"of a pool without nodes":  {sets: evicted, given: hold, nodes: claims("b", 1), git: []string{pool("b", "default")}, want: []string{"Remove NodePool/a"}},
		"all tolerate it":          {sets: plan.DaemonSets{Found: []plan.NodeDaemonSet{{Tolerates: true}}}, given: hold, nodes: claims("a", 1), git: []string{pool("b", "default")}, want: []string{"Remove NodePool/a"}},
		"nobody knows":             {sets: plan.DaemonSets{Unread: "forbidden"}, given: hold, nodes: claims("a", 1), git: []string{pool("b", "default")}, want: []string{"Hold NodePool/a IntolerantDaemonSets"}},
		"a replacement": {
			sets: evicted, given: hold, nodes: claims("a", 1), git: []string{tainted("a"), pool("b", "default")},
			want: []string{`Hold NodePool/a IntolerantDaemonSets spec.template.spec.taints:→[{"effect":"NoSchedule","key":"a"}] replaces 1`},
		},
		"a change that replaces nothing": {
			sets: evicted, given: hold, nodes: claims("a", 1), git: []string{pool("a", "default", "weight: 7"), pool("b", "default")},
			want: []string{"Update NodePool/a Differs spec.weight:→7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			c.live.NodeClaims, c.policy.DaemonSets = test.nodes, test.sets
			if test.given != nil {
				test.given(c)
			}
			p := c.plan(t, append([]string{class("default")}, test.git...)...)
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			held := strings.HasPrefix(test.want[0], "Hold")
			if held != (p.Approvable != nil) || held == p.Disrupts() && !strings.HasPrefix(test.want[0], "Update") && len(test.nodes) > 0 && test.nodes[0].Pool == "a" {
				t.Errorf("held %v, approvable %+v, disrupts %v", held, p.Approvable, p.Disrupts())
			}
		})
	}
}
