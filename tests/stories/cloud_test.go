package stories_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// mark is where counting starts.
type mark struct {
	writes, calls, renders, children, proxied int
}

// billed returns the instances of a pool, or of all, that EC2 bills.
func (s *story) billed(pool string) []string {
	var ids []string
	for _, i := range s.c.instances() {
		if (i.State == "pending" || i.State == "running") && (pool == "" || i.Tags["karpenter.sh/nodepool"] == pool) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

func (s *story) ec2Command(_ *testscript.TestScript, args []string) error {
	timeout, args, _, err := options(args)
	usage := errors.New("usage: ec2 [-t D] count [pool=POOL] = N, left = empty, keep [pool=POOL], kept, untag [KEY], tag [pool=POOL] KEY=VALUE, retag KEY=VALUE, stray pool=POOL, end, leave [class=CLASS], clear [class=CLASS], asked, kill|stop|protect|interrupt [pool=POOL], start, unprotect, spoil IMAGES, unspoil")
	if err != nil || len(args) == 0 {
		return errors.Join(usage, err)
	}
	pool := ""
	if len(args) > 1 && strings.HasPrefix(args[1], "pool=") {
		pool = strings.TrimPrefix(args[1], "pool=")
		args = slices.Delete(args, 1, 2)
	}
	switch question := args[0]; {
	case question == "count" && len(args) == 3 && args[1] == "=":
		return s.poll(timeout, func(context.Context) error {
			if ids := s.billed(pool); fmt.Sprint(len(ids)) != args[2] {
				return fmt.Errorf("instances of pool %q: got %d (%s), want %s", pool, len(ids), strings.Join(ids, ", "), args[2])
			}
			return nil
		})
	case question == "left" && len(args) == 3 && args[2] == "empty":
		return s.poll(timeout, func(context.Context) error {
			if left := s.c.AWS.Left(s.c.Cluster); !left.Empty() {
				return fmt.Errorf("left in AWS: %s", left)
			}
			return nil
		})
	case question == "kill":
		return s.strike(pool, s.c.AWS.Terminate)
	case question == "interrupt":
		return s.strike(pool, s.c.AWS.InterruptSpot)
	case question == "spoil" && len(args) == 2:
		s.c.AWS.SpoilImages(args[1])
		return nil
	case question == "unspoil" && len(args) == 1:
		s.c.AWS.SpoilImages("")
		return nil
	case question == "stop":
		return s.strike(pool, s.c.AWS.Stop)
	case question == "start" && len(args) == 1:
		return s.c.AWS.Start(s.struck)
	case question == "protect":
		return s.strike(pool, func(id string) error { return s.c.AWS.Protect(id, true) })
	case question == "unprotect" && len(args) == 1:
		return s.c.AWS.Protect(s.struck, false)
	case question == "keep":
		s.kept = s.billed(pool)
		if len(s.kept) == 0 {
			return errors.New("there is no instance to keep")
		}
		return nil
	case question == "untag" && len(args) <= 2:
		return s.c.AWS.Untag(s.struck, append(args[1:], "karpenter.sh/nodepool")[0])
	case question == "tag" && len(args) == 2:
		key, value, _ := strings.Cut(args[1], "=")
		return s.strike(pool, func(id string) error { return s.c.AWS.Tag(id, key, value) })
	case question == "retag" && len(args) == 2:
		key, value, _ := strings.Cut(args[1], "=")
		return s.c.AWS.Tag(s.struck, key, value)
	case question == "stray" && len(args) == 1:
		return s.strayInstance(pool)
	case question == "end" && len(args) == 1:
		return s.c.AWS.Terminate(s.struck)
	case question == "leave" && len(args) == 1:
		return s.leave()
	case (question == "leave" || question == "clear") && len(args) == 2:
		class, ok := strings.CutPrefix(args[1], "class=")
		if !ok {
			return usage
		}
		if question == "clear" {
			s.c.AWS.ClearOf(s.c.Cluster, class)
		} else {
			s.c.AWS.LeaveOf(s.c.Cluster, class, "7d1f6c1e-0000-4000-8000-000000000000")
		}
		return nil
	case question == "clear" && len(args) == 1:
		return s.c.AWS.Clear(s.c.Cluster)
	case question == "asked":
		return s.asked()
	case question == "kept":
		running := s.billed("")
		for _, id := range s.kept {
			if !slices.Contains(running, id) {
				return fmt.Errorf("instance %s runs no more; %s do", id, strings.Join(running, ", "))
			}
		}
		return nil
	}
	return usage
}

func (s *story) markCommand(_ *testscript.TestScript, _ []string) error {
	writes, err := s.c.Kube.Writes()
	if err != nil {
		return err
	}
	renders, err := s.logs(rendered)
	if err != nil {
		return err
	}
	children, err := s.logs(childEnded)
	if err != nil {
		return err
	}
	s.mark = mark{writes: len(writes), calls: len(s.c.AWS.Calls("", "")), renders: renders, children: children}
	if s.proxy != nil {
		s.mark.proxied = len(s.proxy.Writes())
	}
	return nil
}

// definitions are the groups whose objects `writes` counts.
var definitions = []string{"karpenter.sh", "karpenter.k8s.aws"}

func (s *story) writesCommand(_ *testscript.TestScript, args []string) error {
	usage := errors.New("usage: writes [KIND[/NAME]] = N|KIND[/NAME]")
	i := slices.Index(args, "=")
	if i < 0 || i > 1 || len(args) != i+2 {
		return usage
	}
	what := ""
	if i == 1 {
		what = args[0]
	}
	written, err := s.written()
	if err != nil {
		return err
	}
	counted, known := only(written, what)
	if !known {
		return usage
	}
	want := args[i+1]
	if _, err := strconv.Atoi(want); err != nil {
		others, known := only(written, want)
		if !known {
			return usage
		}
		want = fmt.Sprint(len(others))
	}
	if got := fmt.Sprint(len(counted)); got != want {
		return fmt.Errorf("writes of the daemon: got %s, want %s:\n\t%s", got, want, strings.Join(counted, "\n\t"))
	}
	return nil
}

// only returns the writes to a KIND or a KIND/NAME, or all, and whether stories know the kind.
func only(written []kube.Write, what string) (counted []string, known bool) {
	kind, name, _ := strings.Cut(what, "/")
	if _, known := kinds[kind]; !known && kind != "" {
		return nil, false
	}
	for _, w := range written {
		if (kind == "" || w.Resource == kinds[kind].Resource) && (name == "" || w.Name == name) {
			counted = append(counted, w.String()+" "+w.URI)
		}
	}
	return counted, true
}

// written returns the daemon's successful writes to definitions since the mark.
func (s *story) written() ([]kube.Write, error) {
	all, err := s.allWritten()
	return slices.DeleteFunc(all, func(w kube.Write) bool {
		return !slices.Contains(definitions, w.Group) || w.Subresource != ""
	}), err
}

// allWritten returns the daemon's successful writes since the mark.
func (s *story) allWritten() ([]kube.Write, error) {
	all, err := s.c.Kube.Writes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all[s.mark.writes:], func(w kube.Write) bool {
		return w.User != "system:serviceaccount:"+daemon.Namespace+":"+daemon.ServiceAccount || w.Code >= 300
	}), nil
}

func (s *story) deletesCommand(_ *testscript.TestScript, args []string) error {
	written, err := s.written()
	if err != nil {
		return err
	}
	var got, want []string
	for _, w := range written {
		if w.Verb == "delete" {
			got = append(got, w.Resource)
		}
	}
	for _, kind := range args {
		want = append(want, kinds[kind].Resource)
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		return fmt.Errorf("what the daemon deleted, in order: got %q, want %q", got, want)
	}
	return nil
}

// accessKey returns the access key of plumbline, or of anyone.
func (s *story) accessKey(who string) (string, error) {
	switch who {
	case "plumbline":
		return s.c.Variables()["AWS_ACCESS_KEY_ID"], nil
	case "doctor":
		return s.c.Variables()[sandbox.VariableDoctor], nil
	case "anyone":
		return "", nil
	}
	return "", fmt.Errorf("want plumbline, doctor or anyone, got %q", who)
}

// calls returns the calls to AWS since the mark.
func (s *story) calls() []awssim.Call {
	all := s.c.AWS.Calls("", "")
	return all[min(s.mark.calls, len(all)):]
}

func (s *story) callsCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 4 || args[2] != "=" && args[2] != "<=" {
		return errors.New("usage: calls WHO ACTION =|<= N")
	}
	key, err := s.accessKey(args[0])
	if err != nil {
		return err
	}
	var counted []string
	for _, call := range s.calls() {
		matches, err := path.Match(args[1], call.Action)
		if err != nil {
			return err
		}
		if matches && (key == "" || call.AccessKey == key) {
			counted = append(counted, call.Action)
		}
	}
	want, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	if got := len(counted); got > want || args[2] == "=" && got < want {
		return fmt.Errorf("calls of %s: got %d, want %s %d: %s", args[0], got, args[2], want, strings.Join(counted, ", "))
	}
	return nil
}
