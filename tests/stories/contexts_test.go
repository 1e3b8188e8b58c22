package stories_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// contextsCommand is `contexts REGEX`.
func (s *story) contextsCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: contexts REGEX")
	}
	want, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	head, err := s.repo.Head(s.ctx)
	if err != nil {
		return err
	}
	return s.poll(defaultWait, func(ctx context.Context) error {
		all, err := s.repo.Statuses(ctx, head)
		if err != nil {
			return err
		}
		newest := map[string]string{}
		for _, status := range all {
			newest[status.Context] = status.Context + "=" + status.State
		}
		if got := strings.Join(slices.Sorted(maps.Values(newest)), " "); !want.MatchString(got) {
			return fmt.Errorf("the commit's statuses are %q", got)
		}
		return nil
	})
}
