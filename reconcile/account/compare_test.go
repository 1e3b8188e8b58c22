package account

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
)

var (
	noon  = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	began = noon.Add(-time.Hour)
)

const hash = "karpenter.k8s.aws/ec2nodeclass-hash"

// hashes returns those of a class.
func hashes(sum string) plan.Hashes {
	return plan.HashesOf(map[string]string{hash: sum, hash + "-version": "v5"})
}

// tags returns those of an instance of general, with some changes; "" removes a tag.
func tags(otherwise map[string]string) map[string]string {
	all := map[string]string{
		"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": "general", "eks:eks-cluster-name": "demo",
		"karpenter.k8s.aws/ec2nodeclass": "default", "team": "a", "Name": "ip-10-0-0-1", "cost": "someone's",
	}
	maps.Copy(all, otherwise)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// fleet returns a Fleet with one instance and its NodeClaim.
func fleet(i cloud.Instance, c plan.NodeClaim) *Fleet {
	return &Fleet{
		Cluster: "demo", Shown: []cloud.Instance{i}, Claims: []plan.NodeClaim{c}, Pools: map[string]bool{"general": true}, Others: map[string]bool{"batch": true},
		Classes: map[string]Class{"default": {Tags: map[string]string{"team": "a", "karpenter.sh/nodepool": "x"}, Hash: hashes("1").Class(), Groups: []string{"sg-1", "sg-2"}}},
		Settled: noon.Add(-time.Minute),
	}
}

// TestARelabelledNodeClaim checks that it is reported for the pool that owns it: Karpenter finds the NodeClaims of a
// pool by their label.
func TestARelabelledNodeClaim(t *testing.T) {
	i := cloud.Instance{ID: "i-1", Zone: "a", State: "running", Pool: "general", SecurityGroups: []string{"sg-2", "sg-1"}, Tags: tags(nil), Launched: began}
	for label, want := range map[string]string{
		"general": "",
		"":        "its NodeClaim has no label karpenter.sh/nodepool, although NodePool/general owns it: kubectl label nodeclaim general-1 karpenter.sh/nodepool=general --overwrite",
		"nowhere": `its NodeClaim's label karpenter.sh/nodepool is "nowhere", although NodePool/general owns it: kubectl label nodeclaim general-1 karpenter.sh/nodepool=general --overwrite`,
	} {
		f := fleet(i, plan.NodeClaim{Name: "general-1", Pool: label, PoolUID: "uid", Class: "default", ProviderID: "aws:///a/i-1", Hashes: hashes("1"), Created: began})
		f.UIDs = map[types.UID]string{"uid": "general"}
		got := ""
		for _, d := range f.Differences() {
			got += d.Message
			if d.Pool != "general" {
				t.Errorf("%q is reported for pool %q", label, d.Pool)
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", label, got, want)
		}
	}
}

// TestDifferences checks that exactly those differences are reported that Karpenter does not find.
func TestDifferences(t *testing.T) {
	instance := func(change func(*cloud.Instance)) cloud.Instance {
		i := cloud.Instance{ID: "i-1", Zone: "a", State: "running", Pool: "general", SecurityGroups: []string{"sg-2", "sg-1"}, Tags: tags(nil), Launched: began}
		change(&i)
		return i
	}
	tagged := func(otherwise map[string]string) cloud.Instance {
		return instance(func(i *cloud.Instance) { i.Tags = tags(otherwise) })
	}
	claim := func(change func(*plan.NodeClaim)) plan.NodeClaim {
		c := plan.NodeClaim{Name: "general-1", Pool: "general", Class: "default", ProviderID: "aws:///a/i-1", Hashes: hashes("1"), Created: began}
		change(&c)
		return c
	}
	same := func(*cloud.Instance) {}
	state := func(state, reason string) cloud.Instance {
		return instance(func(i *cloud.Instance) { i.State, i.Reason = state, reason })
	}
	groups := instance(func(i *cloud.Instance) { i.SecurityGroups = []string{"sg-1"} })
	none := func(c *plan.NodeClaim) { c.ProviderID = "" }
	alone := claim(none)
	as := func(*plan.NodeClaim) {}
	const stray = ": it has no NodeClaim and is running; no NodeClaim of this cluster is recorded for it: find out whether another cluster has the name demo before you terminate it"
	for name, tc := range map[string]struct {
		instance cloud.Instance
		claim    plan.NodeClaim
		want     string
	}{
		"as it should be":                 {instance(same), claim(as), ""},
		"a tag of its class":              {tagged(map[string]string{"team": "b"}), claim(as), `general-1: tag team is "b", expected "a" from EC2NodeClass/default`},
		"a tag of its class is gone":      {tagged(map[string]string{"team": ""}), claim(as), `general-1: tag team is missing, expected "a" from EC2NodeClass/default`},
		"a tag of an older class":         {tagged(map[string]string{"team": "b"}), claim(func(c *plan.NodeClaim) { c.Hashes = hashes("0") }), ""},
		"a tag, and Karpenter replaces":   {tagged(map[string]string{"team": "b"}), claim(func(c *plan.NodeClaim) { c.Drifted = true }), ""},
		"a tag of Karpenter's":            {tagged(map[string]string{"karpenter.sh/nodepool": "batch"}), claim(as), `general-1: tag karpenter.sh/nodepool is "batch", expected "general" from Karpenter`},
		"Karpenter's, of an older class":  {tagged(map[string]string{"eks:eks-cluster-name": ""}), claim(func(c *plan.NodeClaim) { c.Hashes = hashes("0") }), `general-1: tag eks:eks-cluster-name is missing, expected "demo" from Karpenter`},
		"the cluster's":                   {tagged(map[string]string{"kubernetes.io/cluster/demo": "shared"}), claim(as), `general-1: tag kubernetes.io/cluster/demo is "shared", expected "owned" from Karpenter`},
		"a tag of another client":         {tagged(map[string]string{"cost": "other", "Name": "mine"}), claim(as), ""},
		"security groups":                 {groups, claim(as), "general-1: its security groups are sg-1, expected sg-1, sg-2 from EC2NodeClass/default"},
		"groups, and Karpenter replaces":  {groups, claim(func(c *plan.NodeClaim) { c.Drifted = true }), ""},
		"ended by hand":                   {state("terminated", "Client.UserInitiatedShutdown: User initiated shutdown"), claim(as), "general-1: it is terminated in EC2 (Client.UserInitiatedShutdown: User initiated shutdown), but its NodeClaim still exists"},
		"stopped by hand":                 {state("stopped", ""), claim(as), "general-1: it is stopped in EC2, but its NodeClaim still exists"},
		"ended by Karpenter":              {state("shutting-down", ""), claim(func(c *plan.NodeClaim) { c.Deleting = true }), ""},
		"EC2 does not show it":            {instance(func(i *cloud.Instance) { i.ID = "i-2"; i.Pool = "batch" }), claim(as), "general-1: EC2 has no such instance, but its NodeClaim still exists"},
		"EC2 does not show it yet":        {instance(func(i *cloud.Instance) { i.ID = "i-2"; i.Pool = "batch" }), claim(func(c *plan.NodeClaim) { c.Created = noon }), ""},
		"no NodeClaim":                    {instance(same), alone, stray},
		"no NodeClaim, of another's pool": {instance(func(i *cloud.Instance) { i.Pool = "batch" }), alone, ""},
		"no NodeClaim, of no pool":        {instance(func(i *cloud.Instance) { i.Pool = "gone" }), alone, stray},
		"no NodeClaim yet":                {instance(func(i *cloud.Instance) { i.Launched = noon }), alone, ""},
		"no NodeClaim, and it ends":       {state("shutting-down", ""), alone, ""},
		"of a NodeClaim of another's":     {tagged(map[string]string{"team": "b"}), claim(func(c *plan.NodeClaim) { c.Pool = "batch" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, d := range fleet(tc.instance, tc.claim).Differences() {
				got += d.NodeClaim + ": " + d.Message
				if d.ID != "i-1" {
					t.Errorf("it is said of %s", d.ID)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestGroupsThatAreNotCompared checks that they are no difference.
func TestGroupsThatAreNotCompared(t *testing.T) {
	f := fleet(cloud.Instance{ID: "i-1", Zone: "a", State: "running", Tags: tags(nil), Launched: began}, plan.NodeClaim{Pool: "general", Class: "default", ProviderID: "aws:///a/i-1", Hashes: hashes("1"), Created: began})
	class := f.Classes["default"]
	class.Groups = nil
	f.Classes["default"] = class
	if found := f.Differences(); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// TestNodesThatNobodyHas checks the Nodes without a NodeClaim and an instance, of the NodeSync's pools and of pools
// that are gone.
func TestNodesThatNobodyHas(t *testing.T) {
	settled := metav1.Unix(1000, 0)
	node := func(name, pool, id string, change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(1, 0), Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
		if id != "" {
			n.Spec.ProviderID = "aws:///eu-west-1a/" + id
		}
		for _, c := range change {
			c(n)
		}
		return n
	}
	terminating := func(n *corev1.Node) {
		at := metav1.Unix(500, 0)
		n.DeletionTimestamp, n.Finalizers = &at, []string{karpv1.TerminationFinalizer}
	}
	system := node("system", "", "i-0123456789abcdef0")
	system.Labels = nil
	fleet := Fleet{
		Pools: map[string]bool{"general": true}, Others: map[string]bool{"theirs": true}, Settled: settled.Time,
		Claims: []plan.NodeClaim{
			{Node: "claimed"},
			{Name: "lost", Pool: "general", Node: "deleted", ProviderID: "aws:///eu-west-1a/i-00000000000000010"},
			{Name: "unlabelled", Pool: "general", Node: "system", ProviderID: "aws:///eu-west-1a/i-00000000000000010"},
			{Name: "ends", Pool: "general", Node: "deleted", ProviderID: "aws:///eu-west-1a/i-00000000000000010", Deleting: true},
			{Name: "ended", Pool: "general", Node: "deleted", ProviderID: "aws:///eu-west-1a/i-00000000000000007"},
			{Name: "theirs", Pool: "theirs", Node: "deleted", ProviderID: "aws:///eu-west-1a/i-00000000000000010"},
		},
		Shown: []cloud.Instance{
			{ID: "i-00000000000000001", State: "running"},
			{ID: "i-00000000000000002", State: "terminated"},
			{ID: "i-00000000000000007", State: "shutting-down"},
			{ID: "i-00000000000000010", State: "running"},
		},
	}
	q := &question{fleet: fleet, cluster: clusterOf(t,
		system, node("claimed", "general", "i-00000000000000009"), node("runs", "general", "i-00000000000000001"), node("theirs", "theirs", "i-00000000000000003"),
		node("ended", "general", "i-00000000000000002"), node("unknown", "gone", "i-00000000000000004"), node("bare", "general", ""),
		node("leaving", "general", "i-00000000000000006", terminating), node("leaving-too", "general", "i-00000000000000001", terminating),
		node("leaving-last", "general", "i-00000000000000002", terminating), node("leaving-bare", "general", "", terminating),
		node("leaving-first", "general", "i-00000000000000007", terminating),
		node("new", "general", "i-00000000000000005", func(n *corev1.Node) { n.CreationTimestamp = metav1.Unix(2000, 0) }),
	)}
	found, err := q.nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	says := func(name string) string {
		return "Node " + name + " exists, but has neither a NodeClaim nor an EC2 instance: kubectl delete node " + name
	}
	want := []v1alpha1.DriftedInstance{
		{ID: "bare", Pool: "general", Message: says("bare")},
		{ID: "i-00000000000000002", Pool: "general", Message: says("ended")},
		{ID: "i-00000000000000004", Pool: "gone", Message: says("unknown")},
		{ID: "i-00000000000000010", NodeClaim: "lost", Pool: "general", Message: "it runs, and its Node deleted was deleted while its NodeClaim remains: kubectl delete nodeclaim lost"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	left := []removal.LeftInstance{
		{Kind: removal.Node, Name: "leaving", Pool: "general", Instance: "i-00000000000000006", ProviderID: "aws:///eu-west-1a/i-00000000000000006", Since: time.Unix(500, 0)},
		{Kind: removal.Node, Name: "leaving-bare", Pool: "general", Instance: "leaving-bare", Since: time.Unix(500, 0)},
		{Kind: removal.Node, Name: "leaving-first", Pool: "general", Instance: "i-00000000000000007", ProviderID: "aws:///eu-west-1a/i-00000000000000007", Since: time.Unix(500, 0)},
		{Kind: removal.Node, Name: "leaving-last", Pool: "general", Instance: "i-00000000000000002", ProviderID: "aws:///eu-west-1a/i-00000000000000002", Gone: true, Since: time.Unix(500, 0)},
		{Kind: removal.Node, Name: "leaving-too", Pool: "general", Instance: "i-00000000000000001", ProviderID: "aws:///eu-west-1a/i-00000000000000001", Since: time.Unix(500, 0)},
	}
	if diff := cmp.Diff(left, q.left); diff != "" {
		t.Errorf("terminating (-want +got):\n%s", diff)
	}
}

// TestAnInstanceOfANodeWithoutClaimIsAskedForByID checks this because EC2 otherwise does not return a terminated
// instance, and nothing proves that it is terminated.
func TestAnInstanceOfANodeWithoutClaimIsAskedForByID(t *testing.T) {
	at := metav1.Unix(500, 0)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "leaving", CreationTimestamp: metav1.Unix(1, 0), Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
			DeletionTimestamp: &at, Finalizers: []string{"acme.io/hold"},
		},
		Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/i-00000000000000001"},
	}
	aws := &instancesAWS{terminated: "aws:///eu-west-1a/i-00000000000000001"}
	var left []removal.LeftInstance
	for _, gone := range []bool{false, true} { // the first comparison finds the Node
		q := &question{
			fleet: Fleet{Pools: map[string]bool{"general": true}, Settled: time.Unix(1000, 0)}, cluster: clusterOf(t, node), leftBefore: left,
			cloud: func(context.Context) (InstanceCloud, error) { return aws, nil }, living: leftover.Living{Instances: map[string]bool{}},
		}
		if _, err := q.compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left = q.left; len(left) != 1 || left[0].Gone != gone {
			t.Errorf("%+v, want it gone: %t", left, gone)
		}
	}
}

// TestInstancesThatShutDown checks the instances of the NodeSync's pools without a NodeClaim, with the time at which
// they were first seen shutting down.
func TestInstancesThatShutDown(t *testing.T) {
	is := func(id, state, pool string) cloud.Instance {
		return cloud.Instance{ID: id, Zone: "eu-west-1a", State: state, Pool: pool}
	}
	claimed := is("i-00000000000000005", "shutting-down", "general")
	q := &question{
		now: time.Unix(1000, 0), leftBefore: []removal.LeftInstance{{Kind: removal.TerminatingInstance, Name: "i-00000000000000001", Since: time.Unix(900, 0)}},
		fleet: Fleet{
			Pools: map[string]bool{"general": true}, Others: map[string]bool{"theirs": true}, Claims: []plan.NodeClaim{{ProviderID: claimed.ProviderID()}},
			Shown: []cloud.Instance{
				is("i-00000000000000001", "shutting-down", "general"), is("i-00000000000000002", "shutting-down", "gone"), is("i-00000000000000003", "shutting-down", "theirs"),
				is("i-00000000000000004", "terminated", "general"), claimed,
			},
		},
	}
	want := []removal.LeftInstance{
		{Kind: removal.TerminatingInstance, Name: "i-00000000000000001", Instance: "i-00000000000000001", Pool: "general", Since: time.Unix(900, 0)},
		{Kind: removal.TerminatingInstance, Name: "i-00000000000000002", Instance: "i-00000000000000002", Pool: "gone", Since: time.Unix(1000, 0)},
	}
	if diff := cmp.Diff(want, q.shuttingDown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
