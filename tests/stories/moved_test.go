package stories_test

import (
	"context"
	"errors"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Commands for what changes in AWS without a commit.

// awsCommand is `aws publishes|withdraws VERSION`, `aws tags GROUP KEY=VALUE`, `aws untags GROUP KEY` `aws role gone|back`, and
// `aws role lacks|has ACTION`.
func (s *story) awsCommand(_ *testscript.TestScript, args []string) error {
	switch word := strings.Join(args[:min(1, len(args))], ""); {
	case word == "publishes" && len(args) == 2:
		s.c.AWS.PublishAL2023(args[1])
		return nil
	case word == "withdraws" && len(args) == 2:
		restore := s.c.AWS.WithdrawAL2023(args[1])
		s.undo = append(s.undo, func(context.Context) error { restore(); return nil })
		return nil
	case (word == "tags" || word == "untags") && len(args) == 3:
		group, err := s.c.AWS.SecurityGroup(s.c.Cluster, args[1])
		if err != nil {
			return err
		}
		key, value, _ := strings.Cut(args[2], "=")
		if word == "tags" {
			return s.c.AWS.Tag(group, key, value)
		}
		return s.c.AWS.Untag(group, key)
	case word == "role" && len(args) == 2 && (args[1] == "gone" || args[1] == "back"):
		return s.c.AWS.SetRoleGone("KarpenterControllerRole-"+s.c.Cluster, args[1] == "gone")
	case word == "role" && len(args) == 3 && (args[1] == "lacks" || args[1] == "has"):
		name, lacks := "KarpenterControllerRole-"+s.c.Cluster, args[1] == "lacks"
		if lacks {
			s.undo = append(s.undo, func(context.Context) error {
				_ = s.c.AWS.SetRoleLacks(name, args[2], false) // the story may have added it again
				return nil
			})
		}
		return s.c.AWS.SetRoleLacks(name, args[2], lacks)
	}
	return errors.New("usage: aws publishes|withdraws VERSION, aws tags GROUP KEY=VALUE, aws untags GROUP KEY, aws role gone|back, aws role lacks|has ACTION")
}
