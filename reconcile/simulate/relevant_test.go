package simulate_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

const (
	rack = "example.com/rack"
	team = "example.com/team"
)

// TestNodesAreLeftOut checks which nodes of other pools are part of the simulation of one pod that moves.
func TestNodesAreLeftOut(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	apart := func(key string) *corev1.Affinity {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: web}},
		}}
	}
	required := func(r ...corev1.NodeSelectorRequirement) *corev1.Affinity {
		terms := []corev1.NodeSelectorTerm{{MatchExpressions: r}}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	for name, c := range map[string]struct {
		// cpu is what the pods on both nodes request of two CPUs; the pod that moves requests one.
		cpu  string
		with func(c *simulate.Capture, moving *corev1.Pod)
		out  []string
	}{
		"no room":             {"1500m", nil, []string{"one", "two"}},
		"room":                {"500m", nil, nil},
		"room on one of them": {"500m", func(c *simulate.Capture, _ *corev1.Pod) { pod(c, "more", "two", "1") }, []string{"two"}},
		"a taint": {"500m", func(c *simulate.Capture, _ *corev1.Pod) {
			c.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			c.Nodes[2].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, []string{"one"}},
		"a taint that is tolerated": {"500m", func(c *simulate.Capture, moving *corev1.Pod) {
			c.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			moving.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		}, nil},
		"a label": {"500m", func(c *simulate.Capture, moving *corev1.Pod) {
			label(&c.Nodes[1], team, "x")
			moving.Spec.NodeSelector = map[string]string{team: "x"}
		}, []string{"two"}},
		"a label that another pod avoids": {"500m", func(c *simulate.Capture, moving *corev1.Pod) {
			moving.Spec.NodeSelector = map[string]string{team: "x"}
			pod(c, "avoids", "", "1600m").Spec.Affinity = required(avoids(team, "z"))
		}, nil},
		"a label with another value": {"500m", func(c *simulate.Capture, moving *corev1.Pod) {
			label(&c.Nodes[1], team, "z")
			moving.Spec.Affinity = required(avoids(team, "z"))
		}, []string{"one"}},
		"not initialized": {"1500m", func(c *simulate.Capture, _ *corev1.Pod) {
			delete(c.Nodes[1].Labels, karpv1.NodeInitializedLabelKey)
		}, []string{"two"}},
		"no NodeClaim": {"1500m", func(c *simulate.Capture, _ *corev1.Pod) {
			c.NodeClaims = c.NodeClaims[:2]
			delete(c.Nodes[2].Labels, karpv1.NodePoolLabelKey)
		}, []string{"one", "two"}},
		"a NodeClaim that Karpenter does not know": {"1500m", func(c *simulate.Capture, _ *corev1.Pod) {
			c.NodeClaims = c.NodeClaims[:2]
		}, []string{"one"}},
		"terminating": {"1500m", func(c *simulate.Capture, _ *corev1.Pod) {
			c.NodeClaims[1].DeletionTimestamp = &metav1.Time{Time: c.TakenAt}
		}, []string{"two"}},
		"a pod that is apart by zone": {"1500m", func(c *simulate.Capture, _ *corev1.Pod) {
			c.Pods[1].Spec.Affinity = apart(corev1.LabelTopologyZone)
		}, []string{"two"}},
		"a pod that is apart by node": {"1500m", func(c *simulate.Capture, _ *corev1.Pod) {
			c.Pods[1].Spec.Affinity = apart(corev1.LabelHostname)
		}, []string{"one", "two"}},
		"a pod that is apart from others": {"1500m", func(c *simulate.Capture, moving *corev1.Pod) {
			c.Pods[1].Spec.Affinity, moving.Labels = apart(corev1.LabelTopologyZone), nil
		}, []string{"one", "two"}},
		"the only node of a domain": {"1500m", func(c *simulate.Capture, moving *corev1.Pod) {
			spreadOver(c, moving, "r1", "r2")
		}, nil},
		"one of two nodes of a domain": {"1500m", func(c *simulate.Capture, moving *corev1.Pod) {
			spreadOver(c, moving, "r1", "r1")
		}, []string{"two"}},
		"a domain that another node shows": {"500m", func(c *simulate.Capture, moving *corev1.Pod) {
			spreadOver(c, moving, "r1", "r1")
			pod(c, "more", "two", "1")
		}, []string{"two"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, class := poolNamed(t, "a", "", any64), poolNamed(t, "b", "", any64), classNamed(t, "default")
			all := fleet(a, b, class)
			leaving := node(all, "a", "leaving", "1")
			node(all, "b", "one", c.cpu)
			node(all, "b", "two", c.cpu)
			for i := range all.Nodes {
				all.Nodes[i].Labels = maps.Clone(all.Nodes[i].Labels)
			}
			if c.with != nil {
				c.with(all, &all.Pods[0])
			}
			var out []string
			for id := range simulate.LeftOut(t.Context(), all, commitOf(all.Definitions, []types.UID{leaving})) {
				out = append(out, strings.TrimPrefix(id, "aws:///us-east-1a/"))
			}
			slices.Sort(out)
			if diff := cmp.Diff(c.out, out); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

func label(n *corev1.Node, key, value string) { n.Labels[key] = value }

func avoids(key, value string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: []string{value}}
}

func spreadOver(c *simulate.Capture, moving *corev1.Pod, one, two string) {
	label(&c.Nodes[1], rack, one)
	label(&c.Nodes[2], rack, two)
	moving.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: rack, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: moving.Labels},
	}}
}

// TestLimitsCountNodesThatAreLeftOut checks a pool whose nodes are full and use its limits.
func TestLimitsCountNodesThatAreLeftOut(t *testing.T) {
	for limit, nowhere := range map[string]int{"{cpu: 5}": 1, "{cpu: 6}": 0, "{nodes: 2}": 1, "{nodes: 3}": 0} {
		a, b, class := poolNamed(t, "a", "", any64), poolNamed(t, "b", "limits: "+limit, any64), classNamed(t, "default")
		c := fleet(a, b, class)
		leaving := node(c, "a", "leaving", "1")
		node(c, "b", "one", "2")
		node(c, "b", "two", "2")
		out := simulated(t, c, []map[string]any{b, class}, []types.UID{leaving}, "m5.large 2 8")
		if left := simulate.LeftOut(t.Context(), c, commitOf(c.Definitions, []types.UID{leaving})); len(out.Nowhere) != nowhere || len(left) != 2 {
			t.Errorf("limits %s: left out %v, %+v", limit, left, out)
		}
	}
}

// TestInstanceTypesAreGrouped checks how many of three instance types of equal size the scheduler gets, and that the
// result has all that match.
func TestInstanceTypesAreGrouped(t *testing.T) {
	const family = "karpenter.k8s.aws/instance-family"
	for name, c := range map[string]struct {
		requirements string
		with         func(moving *corev1.Pod)
		served, all  int
	}{
		"any": {any64, nil, 1, 3},
		"a pod selects a family": {any64, func(moving *corev1.Pod) {
			moving.Spec.NodeSelector = map[string]string{family: "m5"}
		}, 2, 1},
		"a pool selects two families": {"[{key: " + family + ", operator: In, values: [m5, m5a]}]", nil, 2, 2},
		"a pool needs two families":   {"[{key: " + family + ", operator: Exists, minValues: 2}]", nil, 3, 3},
		"a pod is spread over families": {any64, func(moving *corev1.Pod) {
			moving.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: family, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: moving.Labels},
			}}
		}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, class := poolNamed(t, "a", "", c.requirements), classNamed(t, "default")
			cluster := fleet(a, class)
			commit := commitOf(cluster.Definitions, []types.UID{node(cluster, "a", "leaving", "1")})
			if c.with != nil {
				c.with(&cluster.Pods[0])
			}
			o := offersOf(t, "m5.large 2 8", "m5a.large 2 8", "m6i.large 2 8")
			served, err := simulate.Served(t.Context(), cluster, commit, o, "a")
			if err != nil || len(served) != c.served {
				t.Errorf("the scheduler gets %v, %v; want %d", served, err, c.served)
			}
			out, err := simulate.Run(t.Context(), cluster, commit, o)
			if err != nil || len(out.New) != 1 || len(out.New[0].Types) != c.all {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}

// TestTheRelevantPartIsEqualToTheWhole checks that a simulation without the nodes that are left out, with grouped
// instance types, returns the same as one with everything. Where several domains of a topology are equally good,
// Karpenter chooses a random one: then the result is one of those of the whole.
func TestTheRelevantPartIsEqualToTheWhole(t *testing.T) {
	o := offersOf(t, "m5.large 2 8", "m5a.large 2 8", "m6i.large 2 8", "c5.large 2 4", "c6i.large 2 4", "r5.large 2 16",
		"m5.xlarge 4 16", "m6i.xlarge 4 16", "m5.4xlarge 16 64")
	left, worlds := 0, 0
	property.Check(t, func(rt *rapid.T) {
		w := smallWorld{T: rt, test: t}
		c, commit := w.draw()
		worlds++
		if len(simulate.LeftOut(t.Context(), copied(rt, c), commit)) > 0 {
			left++
		}
		got, err := simulate.Run(t.Context(), copied(rt, c), commit, o)
		if err != nil {
			rt.Fatal(err)
		}
		diff := ""
		for range 30 {
			want, err := simulate.RunWhole(t.Context(), copied(rt, c), commit, o)
			if err != nil {
				rt.Fatal(err)
			}
			// Reasons name new nodes by a counter of the process.
			diff = cmp.Diff(want, got, close, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(simulate.Stranded{}, "Reason"))
			if diff == "" {
				return
			}
		}
		rt.Fatalf("left out %v (-whole +part):\n%s", simulate.LeftOut(t.Context(), copied(rt, c), commit), diff)
	})
	if left*4 < worlds {
		t.Errorf("nodes were left out of %d of %d worlds", left, worlds)
	}
}

// copied returns a copy of a Capture, because Karpenter changes selectors of pods.
func copied(t *rapid.T, c *simulate.Capture) *simulate.Capture {
	text := &bytes.Buffer{}
	if err := c.Encode(text); err != nil {
		t.Fatal(err)
	}
	found, err := simulate.DecodeCapture(text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// smallWorld draws clusters and commits.
type smallWorld struct {
	*rapid.T
	test *testing.T
	c    *simulate.Capture
}

// seldom is true once in n times.
func (w *smallWorld) seldom(n int, what string) bool {
	return rapid.IntRange(1, n).Draw(w.T, what) == n
}

func one[T any](w *smallWorld, what string, of ...T) T { return rapid.SampledFrom(of).Draw(w.T, what) }

func (w *smallWorld) draw() (*simulate.Capture, simulate.Commit) {
	pools := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(w.T, "pools")]
	before, after := w.definitions(pools), w.definitions(pools)
	if w.seldom(4, "a pool is removed") {
		after = after[:len(after)-1]
	}
	w.c = fleet(before...)
	w.c.Settings = simulate.Settings{
		Settings: offers.Defaults(), NodeOverlay: w.seldom(3, "overlays"),
		IgnorePreferences: w.seldom(5, "ignore preferences"), RelaxMinValues: w.seldom(5, "relax minValues"),
	}
	w.c.Namespaces = []corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"kind": "app"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
	}
	if w.seldom(3, "buffers") {
		w.c.Settings.CapacityBuffer = true
		w.c.PodTemplates = []corev1.PodTemplate{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "spare"}, Template: template(one(w, "spare", "600m", "1500m")),
		}}
		after = append(after, bufferNamed(w.test, "spare", "{podTemplateRef: {name: spare}, replicas: 2}"))
	}
	w.daemons()
	var touched []types.UID
	for i := range rapid.IntRange(1, 8).Draw(w.T, "nodes") {
		uid := w.node(fmt.Sprintf("n%d", i), one(w, "pool", pools...))
		if w.seldom(3, "touched") {
			touched = append(touched, uid)
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(w.T, "pending") {
		w.pod(fmt.Sprintf("pending-%d", i), "")
	}
	if w.seldom(3, "budget") {
		most := one(w, "maxUnavailable", intstr.FromInt32(0), intstr.FromInt32(1))
		w.c.Budgets = []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: w.selector()},
		}}
	}
	return w.c, commitOf(after, touched)
}

func (w *smallWorld) definitions(pools []string) []map[string]any {
	found := []map[string]any{classNamed(w.test, "default"), defined(w.test, `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: cheaper}
spec: {priceAdjustment: "-50%", requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m6i.large]}]}
`)}
	for _, name := range pools {
		more := one(w, "more", "", "", "weight: 10", `limits: {cpu: "4"}`, `limits: {cpu: "9", memory: 40Gi}`, `limits: {nodes: "3"}`)
		requirements := one(w, "requirements", any64, any64,
			`[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5]}]`,
			`[{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["2"]}]`,
			`[{key: node.kubernetes.io/instance-type, operator: Exists, minValues: 3}]`,
			`[{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}]`,
			`[{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]`,
			`[{key: `+team+`, operator: In, values: [x, z]}]`)
		pool := poolNamed(w.test, name, more, requirements)
		template := pool["spec"].(map[string]any)["template"].(map[string]any)
		if w.seldom(3, "labels") {
			template["metadata"] = map[string]any{"labels": map[string]any{rack: one(w, "rack", "r1", "r2")}}
		}
		if w.seldom(4, "taints") {
			taint := map[string]any{"key": "dedicated", "effect": one(w, "effect", "NoSchedule", "PreferNoSchedule")}
			template["spec"].(map[string]any)["taints"] = []any{taint}
		}
		found = append(found, pool)
	}
	return found
}

func (w *smallWorld) daemons() {
	if !w.seldom(3, "daemons") {
		return
	}
	d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "agent", UID: "agent"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: requests("100m", "128Mi")}}
	if w.seldom(2, "daemons on some nodes") {
		d.Spec.Template.Spec.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-family": "m5"}
	}
	w.c.DaemonSets = append(w.c.DaemonSets, d)
}

func requests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

func (w *smallWorld) node(name, pool string) types.UID {
	uid := node(w.c, pool, name)
	claim, n := &w.c.NodeClaims[len(w.c.NodeClaims)-1], &w.c.Nodes[len(w.c.Nodes)-1]
	claim.Labels[corev1.LabelTopologyZone] = one(w, "zone", "us-east-1a", "us-east-1b")
	for _, key := range []string{rack, team} {
		if value := one(w, key, "", "", "r1", "r2", "x", "z"); value != "" {
			claim.Labels[key] = value
		}
	}
	n.Labels = maps.Clone(claim.Labels)
	if w.seldom(4, "tainted") {
		effect := one(w, "effect", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)
		n.Spec.Taints = []corev1.Taint{{Key: one(w, "taint", "dedicated", "other"), Effect: effect}}
		claim.Spec.Taints = n.Spec.Taints
	}
	switch one(w, "state", "", "", "", "", "", "uninitialized", "terminating", "unmanaged", "no node", "no label") {
	case "uninitialized":
		delete(n.Labels, karpv1.NodeInitializedLabelKey)
	case "terminating":
		claim.DeletionTimestamp = &metav1.Time{Time: w.c.TakenAt}
	case "unmanaged":
		w.c.NodeClaims = w.c.NodeClaims[:len(w.c.NodeClaims)-1]
		delete(n.Labels, karpv1.NodePoolLabelKey)
	case "no node":
		w.c.Nodes, claim.Status.NodeName = w.c.Nodes[:len(w.c.Nodes)-1], ""
		return uid
	case "no label":
		delete(n.Labels, corev1.LabelTopologyZone)
	}
	if len(w.c.DaemonSets) > 0 && w.seldom(2, "agent") {
		agent := pod(w.c, name+"-agent", name, "100m")
		yes := true
		agent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: &yes}}
	}
	if w.seldom(2, "full") {
		pod(w.c, name+"-full", name, "2")
	}
	for i := range rapid.IntRange(0, 3).Draw(w.T, "pods") {
		w.pod(fmt.Sprintf("%s-%d", name, i), name)
	}
	return uid
}

// pod adds a pod with some of the fields that decide where it is scheduled.
func (w *smallWorld) pod(name, on string) {
	p := pod(w.c, name, on, one(w, "cpu", "100m", "300m", "600m", "900m", "1500m", "3"))
	p.Namespace, p.Labels = one(w, "namespace", "web", "web", "shop"), map[string]string{"app": one(w, "app", "a", "b", "c")}
	s := &p.Spec
	if w.seldom(4, "selector") {
		key := one(w, "key", team, team, rack, corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable, corev1.LabelHostname,
			karpv1.NodePoolLabelKey)
		s.NodeSelector = map[string]string{key: w.value(key)}
	}
	if w.seldom(4, "tolerates") {
		s.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}
	if w.seldom(3, "spread") {
		w.spread(p)
	}
	w.affinity(p)
	if w.seldom(6, "port") {
		s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	}
	if w.seldom(6, "volume") {
		w.volume(p)
	}
	if w.seldom(8, "do not disrupt") {
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
}

func (w *smallWorld) value(key string) string {
	switch key {
	case corev1.LabelTopologyZone:
		return one(w, "zone", "us-east-1a", "us-east-1b", "us-east-1z")
	case corev1.LabelInstanceTypeStable:
		return one(w, "type", "m5.large", "m6i.large", "m5.xlarge")
	case "karpenter.k8s.aws/instance-family":
		return one(w, "family", "m5", "m6i", "c5")
	case corev1.LabelHostname:
		return one(w, "host", "n0", "n1")
	case karpv1.NodePoolLabelKey:
		return one(w, "of", "a", "b")
	}
	return one(w, "value", "r1", "r2", "x", "z")
}

func (w *smallWorld) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": one(w, "app", "a", "b", "c")}}
}

func (w *smallWorld) domain() string {
	return one(w, "topology", corev1.LabelTopologyZone, corev1.LabelHostname, rack)
}

func (w *smallWorld) spread(p *corev1.Pod) {
	honor := corev1.NodeInclusionPolicyHonor
	constraint := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: w.domain(), LabelSelector: w.selector(),
		WhenUnsatisfiable: one(w, "else", corev1.DoNotSchedule, corev1.ScheduleAnyway),
	}
	if w.seldom(3, "honor") {
		constraint.NodeTaintsPolicy = &honor
	}
	if two := int32(2); w.seldom(4, "minDomains") && constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
		constraint.MinDomains = &two
	}
	if w.seldom(5, "matchLabelKeys") {
		constraint.MatchLabelKeys = []string{"app"}
	}
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, constraint)
}

// nodes returns requirements on labels of nodes.
func (w *smallWorld) nodes() corev1.NodeSelectorTerm {
	key := one(w, "key", team, rack, corev1.LabelTopologyZone, "karpenter.k8s.aws/instance-family")
	r := corev1.NodeSelectorRequirement{Key: key, Operator: one(w, "operator",
		corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)}
	if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn {
		r.Values = []string{w.value(key)}
	}
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}}
}

// pods returns a term about pods that run in the same domain.
func (w *smallWorld) pods() corev1.PodAffinityTerm {
	found := corev1.PodAffinityTerm{TopologyKey: w.domain(), LabelSelector: w.selector()}
	if w.seldom(3, "namespaces") {
		found.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "app"}}
	}
	return found
}

func (w *smallWorld) affinity(p *corev1.Pod) {
	var nodes corev1.NodeAffinity
	var with corev1.PodAffinity
	var apart corev1.PodAntiAffinity
	switch one(w, "affinity", "", "", "", "", "node", "preferred node", "with", "apart", "preferred with", "preferred apart") {
	case "":
		return
	case "node":
		terms := []corev1.NodeSelectorTerm{w.nodes()}
		if w.seldom(2, "or") {
			terms = append(terms, w.nodes())
		}
		nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	case "preferred node":
		nodes.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: w.nodes()}}
	case "with":
		with.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{w.pods()}
	case "apart":
		apart.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{w.pods()}
	case "preferred with":
		with.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: w.pods()}}
	case "preferred apart":
		apart.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: w.pods()}}
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &nodes, PodAffinity: &with, PodAntiAffinity: &apart}
}

// volume gives a pod a volume in a zone, and limits how many can be attached to its node.
func (w *smallWorld) volume(p *corev1.Pod) {
	zone := one(w, "zone of the volume", "us-east-1a", "us-east-1b")
	w.c.Claims = append(w.c.Claims, corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
		},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: p.Name},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	})
	v := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
		}},
	}}}}
	w.c.Volumes = append(w.c.Volumes, v)
	source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
}
