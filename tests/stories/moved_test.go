package stories_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// Commands for what changes in AWS without a commit.

// awsCommand is `aws publishes|withdraws VERSION`, `aws tags GROUP KEY=VALUE`, `aws untags GROUP KEY`, `aws role gone|back`,
// `aws role lacks|has ACTION`, `aws policies FILE|back`, `aws addon NAME gone|back`, `aws nodeaccess|route|endpoints gone|back`, `aws rule NAME gone|back`,
// `aws nodegroup|scaling FILE`, `aws fargate NAME NAMESPACE`, `aws applies ADDON NAMESPACE/DEPLOYMENT`, `aws quota CODE VCPUS|back`, `aws key FILE|back`,
// `aws scp FILE|back`, `aws insight STATUS|back`, `aws authentication MODE|back` and `aws user NAME FILE`.
func (s *story) awsCommand(ts *testscript.TestScript, args []string) error {
	if len(args) >= 2 && slices.Contains([]string{"policies", "nodegroup", "scaling", "fargate", "applies", "addon", "nodeaccess", "rule", "route", "endpoints", "quota", "key", "insight", "authentication", "scp"}, args[0]) {
		return s.preflightCommand(ts, args)
	}
	switch word := strings.Join(args[:min(1, len(args))], ""); {
	case word == "publishes" && len(args) == 2:
		s.c.AWS.PublishAL2023(args[1])
		return nil
	case word == "withdraws" && (len(args) == 2 || len(args) == 3):
		restore := s.c.AWS.WithdrawAL2023(args[1], args[2:]...)
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
	case word == "allows" && len(args) == 2:
		return s.allow(args[1])
	case word == "user" && len(args) == 3:
		return s.addUser(ts, args[1], ts.ReadFile(args[2]))
	}
	return errors.New("usage: aws publishes|withdraws VERSION, aws tags GROUP KEY=VALUE, aws untags GROUP KEY, aws role gone|back, aws role lacks|has ACTION, aws allows POLICY, aws user NAME FILE, " +
		preflightUsage)
}

// preflightUsage is that of preflightCommand.
const preflightUsage = "aws policies FILE|back, aws nodegroup|scaling FILE, aws fargate NAME NAMESPACE, aws applies ADDON NAMESPACE/DEPLOYMENT, aws addon NAME gone|back, aws nodeaccess|route|endpoints gone|back, aws rule NAME gone|back, " +
	"aws quota CODE VCPUS|back, aws key FILE|back, aws scp FILE|back, aws insight STATUS|back, aws authentication MODE|back"

// preflightCommand changes what `plumbline doctor` checks in AWS. Each is restored after the story.
func (s *story) preflightCommand(ts *testscript.TestScript, args []string) error {
	name, last := s.c.Cluster, args[len(args)-1]
	set := map[string]func(exists bool) error{
		"nodeaccess": func(exists bool) error { return s.c.AWS.SetNodeAccess(name, exists) },
		"route":      func(exists bool) error { return s.c.AWS.SetRoute(name, exists) },
		"endpoints":  func(exist bool) error { return s.c.AWS.SetEndpoints(name, exist) },
	}[args[0]]
	switch {
	case slices.Contains([]string{"nodegroup", "scaling", "fargate", "applies"}, args[0]):
		return s.groupCommand(ts, args)
	case args[0] == "policies" && last == "back":
		s.policiesBack()
		return nil
	case args[0] == "policies":
		s.policiesBack()
		restore, err := s.c.AWS.ReplaceRolePolicies("KarpenterControllerRole-"+name, s.expand(ts.ReadFile(last)))
		if err == nil {
			s.restorePolicies = restore
			s.undo = append(s.undo, func(context.Context) error { s.policiesBack(); return nil })
		}
		return err
	case args[0] == "addon" && len(args) == 3:
		set = func(exists bool) error { return s.c.AWS.SetAddon(name, args[1], exists) }
	case slices.Contains([]string{"quota", "key", "insight", "authentication", "scp"}, args[0]):
		return s.valueCommand(ts, args)
	case args[0] == "rule" && len(args) == 3:
		set = func(exists bool) error { return s.c.AWS.SetRule(name+"-"+args[1], exists) }
	}
	if set == nil || last != "gone" && last != "back" {
		return errors.New("usage: " + preflightUsage)
	}
	if last == "gone" {
		s.undo = append(s.undo, func(context.Context) error { return set(true) })
	}
	return set(last == "back")
}

// valueCommand is `aws quota CODE VCPUS|back`, `aws key FILE|back`, `aws scp FILE|back`, `aws insight STATUS|back` and `aws authentication MODE|back`.
// Each is restored after the story.
func (s *story) valueCommand(ts *testscript.TestScript, args []string) error {
	name, value := s.c.Cluster, args[len(args)-1]
	var set func(value string) error
	switch {
	case args[0] == "quota" && len(args) == 3:
		set = func(value string) error {
			if value == "" {
				value = "-1"
			}
			vcpus, err := strconv.ParseFloat(value, 64)
			if err == nil {
				s.c.AWS.SetQuota(args[1], vcpus)
			}
			return err
		}
	case args[0] == "key" && len(args) == 2:
		if value != "back" {
			value = ts.ReadFile(value)
		}
		set = func(policy string) error { return s.c.AWS.SetQueueKey(name, policy) }
	case args[0] == "scp" && len(args) == 2:
		if value != "back" {
			value = s.expand(ts.ReadFile(value))
		}
		set = s.c.AWS.SetServiceControlPolicy
	case args[0] == "insight" && len(args) == 2:
		set = func(status string) error { return s.c.AWS.SetInsight(name, status) }
	case args[0] == "authentication" && len(args) == 2:
		set = func(mode string) error {
			return s.c.AWS.SetAuthenticationMode(name, cmp.Or(mode, "API_AND_CONFIG_MAP"))
		}
	default:
		return errors.New("usage: " + preflightUsage)
	}
	if value == "back" {
		return set("")
	}
	s.undo = append(s.undo, func(context.Context) error { return set("") })
	return set(value)
}

// addUser makes AWS's variables those of a user who may do exactly what policies allow, in the form of `plumbline iam-policy -o
// json`. As the simulator's users may do everything, it is the session of a role.
func (s *story) addUser(ts *testscript.TestScript, name, text string) error {
	var policies []struct {
		Name     string          `json:"name"`
		Document json.RawMessage `json:"document"`
	}
	if err := json.Unmarshal([]byte(text), &policies); err != nil {
		return fmt.Errorf("read the policies of the user %s: %w", name, err)
	}
	role := awssim.Role{Name: name, Trust: awssim.Trusted("ec2.amazonaws.com"), Policies: map[string]string{}}
	for _, p := range policies {
		role.Policies[name+"-"+p.Name] = string(p.Document)
	}
	if err := s.c.AWS.AddRole(role); err != nil {
		return err
	}
	s.undo = append(s.undo, func(context.Context) error { return s.c.AWS.SetRoleGone(name, true) })
	key := "AKIA" + strings.ToUpper(name)
	s.c.AWS.RegisterCredentials(key, name)
	ts.Setenv("AWS_ACCESS_KEY_ID", key)
	return nil
}

// policiesBack restores the policies of Karpenter's role.
func (s *story) policiesBack() {
	if s.restorePolicies != nil {
		s.restorePolicies()
		s.restorePolicies = nil
	}
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
