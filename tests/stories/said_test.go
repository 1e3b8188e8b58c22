package stories_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
)

// Commands for what the daemon reports: events, and commit statuses.

func (s *story) eventsCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil {
		return err
	}
	if len(args) != 1 || pattern == nil {
		return errors.New("usage: events [-t D] NAME ~ REGEX")
	}
	return s.poll(timeout, func(ctx context.Context) error {
		list, err := s.c.Kube.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + args[0]})
		if err != nil {
			return err
		}
		said := []string{"events:"}
		for i := range list.Items {
			e := &list.Items[i]
			if e.LastTimestamp.Time.Before(s.began.Truncate(time.Second)) {
				continue
			}
			line := e.Reason + ": " + e.Message
			if pattern.MatchString(line) {
				return nil
			}
			said = append(said, line)
		}
		return errors.New(strings.Join(said, "\n\t"))
	})
}

func (s *story) statusCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil {
		return err
	}
	settings, err := settingsOf(args)
	if err != nil || settings["state"] == "" {
		return errors.Join(errors.New("usage: status [-t D] state=STATE [at=COMMIT] [subject=applied|drift|plan] [~ REGEX]"), err)
	}
	commit := settings["at"]
	if commit == "" {
		commit = "HEAD"
	}
	if commit, err = s.repo.Git(s.ctx, "rev-parse", commit); err != nil {
		return err
	}
	return s.poll(timeout, func(ctx context.Context) error {
		all, err := s.repo.Statuses(ctx, commit)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(githost.On(settings["subject"], all), func(status githost.Status) bool {
			return !strings.HasPrefix(status.Context, "plumbline/"+s.c.Cluster+"/")
		})
		if len(all) == 0 {
			return fmt.Errorf("commit %s has no status of cluster %s", commit, s.c.Cluster)
		}
		newest := all[len(all)-1]
		if newest.State != settings["state"] || pattern != nil && !pattern.MatchString(newest.Description) {
			return fmt.Errorf("commit %s is %s: %s", commit, newest.State, newest.Description)
		}
		return nil
	})
}

// longestStatus is how many characters of a status Git hosts show.
const longestStatus = 140

func (s *story) statusesCommand(_ *testscript.TestScript, args []string) error {
	head, err := s.repo.Head(s.ctx)
	if err != nil {
		return err
	}
	all, err := s.repo.Statuses(s.ctx, head)
	if err != nil {
		return err
	}
	all = githost.On("", all)
	var states []string
	for _, status := range all {
		states = append(states, status.State)
		if n := len([]rune(status.Description)); n > longestStatus {
			return fmt.Errorf("a status of %d characters: %s", n, status.Description)
		}
	}
	if got := strings.Join(slices.Compact(states), " "); got != strings.Join(args, " ") {
		return fmt.Errorf("states of commit %s: got %s, want %s", head, got, strings.Join(args, " "))
	}
	return nil
}
