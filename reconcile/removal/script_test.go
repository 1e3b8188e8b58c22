package removal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the scripts' answers under testdata")

// TestScripts runs scripts: each contains what a reconcile sees and, below ----, the resulting state of the removal and
// the actions to take.
//
//	removal KIND/NAME [PHASE]   start
//	after DURATION              let time pass
//	see WORD…                   one observation; what is not mentioned is as it should be
//
// The words of see: unrecorded, vanished, terminating, growing, static, cached (the object was not read past the
// cache), claims=a,b! (! is terminating, ~ is being replaced, - has no node), noted=i-1,i-2+,i-3- (+ was reported by
// EC2 as running, - as shutting down), ec2=i-1:running or ec2=nothing (its response), absent=N/D (N responses over a
// time D did not contain any noted instance), silent, hold, controller-down, cloud-unverified, arrivals-pending,
// named-by=NodePool/x, grace (it is not over), no-successor, frozen (no window is open), withheld (the removal has
// stopped growth), scaled (the removal has lowered the replicas), elsewhere=NAMESPACE/NAME (the NodeSync to which it
// moves), replicas=N (of a static pool), paced=N (at most N at a time), replaces (Karpenter should replace the nodes,
// after paced), replacing=N (it may replace N at a time, just granted), lapsing (that expires soon), closed (a budget
// of the pool allows none), stays=a,b (Karpenter cannot replace their nodes), behind=NodePool/x (another pool has used
// that up), budgets=N (the number of disruption budgets that are missing in the record), full=NodePool/x (which takes
// up the space that they need there), pods=ok, pods=pending or pods=NAME,NAME (their workloads, read in this
// reconcile), unasked (the leader was not checked), leaderless, kept (only the nodes are removed).
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			played := play(t, string(script))
			if *update {
				if err := os.WriteFile(path, []byte(played), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(script), played); diff != "" {
				t.Errorf("script (-want +got):\n%s", diff)
			}
		})
	}
}

type player struct {
	t       *testing.T
	now     time.Time
	removal v1alpha1.Removal
}

func play(t *testing.T, script string) string {
	t.Helper()
	p := &player{t: t, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	var out []string
	for _, scene := range strings.Split(strings.TrimSpace(script), "\n\n") {
		asked, _, found := strings.Cut(scene, "\n----")
		if !found {
			out = append(out, scene)
			continue
		}
		answer := ""
		for _, line := range strings.Split(asked, "\n") {
			if !strings.HasPrefix(line, "#") {
				answer = p.do(line)
			}
		}
		out = append(out, strings.TrimRight(asked+"\n----\n"+answer, "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}

func (p *player) do(line string) string {
	words := strings.Fields(line)
	switch words[0] {
	case "removal":
		kind, name, _ := strings.Cut(words[1], "/")
		phase := v1alpha1.RemovalPacing
		if len(words) > 2 {
			phase = v1alpha1.RemovalPhase(words[2])
		}
		at := metav1.NewTime(p.now)
		p.removal = v1alpha1.Removal{Kind: kind, Name: name, UID: "uid", Phase: phase, RecordedAt: at, Since: at, LastProgress: at}
		return ""
	case "after":
		passed, err := time.ParseDuration(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = p.now.Add(passed)
		return ""
	case "see":
		return p.see(words[1:])
	}
	p.t.Fatalf("unknown command %q", line)
	return ""
}

func (p *player) see(words []string) string {
	o := Observation{
		Fresh: true, Recorded: true, Exists: true, GrowthStopped: true, ResourceVersion: "1",
		Controller: Gate{Open: true}, Cloud: Gate{Open: true}, Arrivals: Gate{Open: true},
		Noted: map[string]Seen{}, Absent: map[string]Absence{},
		Grace: Gate{Open: true}, Successor: Gate{Open: true}, Leader: &Gate{Open: true}, Turn: Turn{Terminations: 100},
	}
	for _, word := range words {
		if absent, is := strings.CutPrefix(word, "absent="); is {
			a := p.absence(absent)
			for id := range o.Noted {
				o.Absent[id] = a
			}
			continue
		}
		if word == "replacing" || strings.HasPrefix(word, "replacing=") {
			o.Replacing = &Replacing{Until: p.now.Add(leaseDuration)}
			_, _ = fmt.Sscanf(word, "replacing=%d", &o.Replacing.Nodes)
			continue
		}
		if !o.apply(word) {
			p.t.Fatalf("unknown word %q", word)
		}
	}
	var actions []Action
	p.removal, actions = Next(p.removal, o, p.now, 10*time.Minute)
	lines := []string{fmt.Sprintf("%s %s: %s", p.removal.Phase, p.removal.Reason, p.removal.Message)}
	if p.removal.Phase == v1alpha1.RemovalGone {
		lines[0] = "Gone"
	}
	if p.removal.Remaining > 0 {
		lines[0] += fmt.Sprintf(" (%d remain)", p.removal.Remaining)
	}
	if p.removal.Stalled != nil {
		lines[0] += " STALLED"
	}
	for _, a := range actions {
		lines = append(lines, "  "+a.String())
	}
	return strings.Join(lines, "\n")
}

func (p *player) absence(word string) Absence {
	answers, over, _ := strings.Cut(word, "/")
	n, err := strconv.Atoi(answers)
	if err != nil {
		p.t.Fatal(err)
	}
	passed, err := time.ParseDuration(over)
	if err != nil {
		p.t.Fatal(err)
	}
	return Absence{Since: p.now.Add(-passed), Answers: n}
}

func (o *Observation) apply(word string) bool {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "unrecorded":
		o.Recorded = false
	case "vanished":
		o.Exists = false
	case "terminating":
		o.Terminating = true
	case "kept":
		o.Stays = true
	case "growing":
		o.GrowthStopped = false
	case "cached":
		o.Fresh = false
	case "hold":
		o.Hold = &Hold{Reason: "Held", Message: "a second pool would leave"}
	case "silent":
		o.NoResponse = "AWS throttles ec2:DescribeInstances"
	case "controller-down":
		o.Controller = Gate{Message: "deployment/karpenter is scaled to 0"}
	case "cloud-unverified":
		o.Cloud = Gate{Message: "another account"}
	case "arrivals-pending":
		o.Arrivals = Gate{Message: "NodePool/new is not Ready"}
	case "grace":
		o.Grace = Gate{Message: "30s are not over"}
	case "elsewhere":
		o.NewOwner = value
	case "no-successor":
		o.Successor = Gate{Message: "NodePool/new is not Ready"}
	case "frozen":
		o.Frozen = "no node is removed or replaced before 2026-01-01 22:00 UTC (spec.guard.windows)"
	case "withheld":
		o.GrowthWithheld = true
	case "scaled":
		o.Scaled = true
	case "unasked":
		o.Leader = nil
	case "leaderless":
		o.Leader = &Gate{Message: "no pod holds the lease"}
	case "budgets":
		n, err := strconv.Atoi(value)
		o.Budgets = make([]any, n)
		return err == nil
	case "full":
		o.Full = value
	case "behind":
		o.Turn = Turn{Most: 1, AwaitPods: true, Behind: value, Replaces: o.Turn.Replaces}
	case "paced":
		most, err := strconv.Atoi(value)
		o.Turn = Turn{Terminations: max(0, most-len(o.NodeClaims)+len(o.undeleted())), Most: most, AwaitPods: true}
		return err == nil
	case "replaces":
		o.Turn.Replaces, o.Turn.Terminations = true, max(0, o.Turn.Most-len(o.NodeClaims)+len(o.untouched()))
	case "lapsing":
		o.Replacing.Until = o.Replacing.Until.Add(-leaseDuration)
	case "closed":
		o.Closed = "its disruption budget of 0 nodes (schedule \"0 9 * * *\" for 8h) is active"
	case "stays":
		o.Pods.Stays = map[string]string{}
		for _, name := range strings.Split(value, ",") {
			o.Pods.Stays["node-"+name] = ""
		}
	case "replicas":
		replicas, err := strconv.Atoi(value)
		o.Static, o.Replicas, o.GrowthStopped = true, replicas, replicas == 0
		return err == nil
	case "pods":
		o.Pods = &Pods{}
		switch value {
		case "ok":
		case "pending":
			o.Pods.Waiting = "waiting for pod default/web-1"
		default:
			for _, name := range strings.Split(value, ",") {
				o.Pods.Workloads = append(o.Pods.Workloads, Workload{Kind: "ReplicaSet", Namespace: "default", Name: name})
			}
		}
	case "named-by":
		o.ReferencedBy = strings.Split(value, ",")
	case "claims":
		for _, name := range strings.Split(value, ",") {
			c := Claim{Name: strings.TrimRight(name, "!~-")}
			c.ProviderID, c.Node = "i-"+c.Name, "node-"+c.Name
			switch strings.TrimPrefix(name, c.Name) {
			case "!":
				c.Deleting = time.Unix(1, 0)
			case "~":
				c.Replacing = time.Unix(1, 0)
			case "-":
				c.Node = ""
			}
			o.NodeClaims = append(o.NodeClaims, c)
		}
	case "noted":
		for _, id := range strings.Split(value, ",") {
			seen := map[byte]Seen{'+': "running", '-': seenShuttingDown}[id[len(id)-1]]
			if seen != "" {
				id = id[:len(id)-1]
			}
			o.Noted[id] = seen
		}
	case "unaskable":
		for _, id := range strings.Split(value, ",") {
			o.Noted[id], o.Unaskable = "", append(o.Unaskable, id)
		}
	case "ec2":
		o.EC2 = &Answer{Instances: instancesIn(value)}
	case "shown":
		o.Shown = instancesIn(value)
	default:
		return false
	}
	return true
}

// instancesIn parses comma-separated <provider ID>:<state>.
func instancesIn(list string) []Instance {
	var instances []Instance
	for _, instance := range strings.Split(list, ",") {
		if id, state, found := strings.Cut(instance, ":"); found {
			instances = append(instances, Instance{ProviderID: id, State: state, Gone: state == "terminated"})
		}
	}
	return instances
}
