package stories_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// Commands for what changes in AWS without a commit.

// awsCommand is `aws publishes|withdraws VERSION`, `aws tags GROUP KEY=VALUE`, `aws untags GROUP KEY` and `aws role gone|back`.
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
	case word == "allows" && len(args) == 2:
		return s.allow(args[1])
	}
	return errors.New("usage: aws publishes|withdraws VERSION, aws tags GROUP KEY=VALUE, aws untags GROUP KEY, aws role gone|back, aws allows POLICY")
}

// allow adds a policy of manifests/ to plumbline's role until the end of the story.
func (s *story) allow(policy string) error {
	text, err := os.ReadFile(filepath.Join(s.root, "manifests", policy))
	if err != nil {
		return err
	}
	role := "plumbline-" + s.c.Cluster
	filled := strings.NewReplacer("${PARTITION}", "aws", "${REGION}", s.c.Region, "${ACCOUNT}", awssim.DefaultAccount, "${CLUSTER_NAME}", s.c.Cluster).Replace(string(text))
	s.undo = append(s.undo, func(context.Context) error {
		return s.c.AWS.PutRolePolicy(role, "of-a-story", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:GetCallerIdentity","Resource":"*"}}`)
	})
	return s.c.AWS.PutRolePolicy(role, "of-a-story", filled)
}
