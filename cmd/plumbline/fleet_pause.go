package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
)

// fleetPause are the flags of `plumbline fleet pause` and `plumbline fleet resume`.
type fleetPause struct {
	repo, reason string
	noPush       bool
}

func newFleetPauseCommand(verb string) *cobra.Command {
	o := &fleetPause{}
	does, effect := "Pause", "No cluster of the ring takes a commit until it is resumed. A commit that a cluster has taken\nalready continues. A pause applies at once, also if the commit that pauses waits itself."
	if verb == "resume" {
		does, effect = "Resume", "Its clusters take commits again, by the rings before it."
	}
	cmd := &cobra.Command{
		Use:   verb + " RING",
		Short: does + " a ring with a signed commit",
		Long: fmt.Sprintf(`%s a ring: edit rings.yaml in a clone, commit it with your own git, signed (git commit -S), and
push the branch that is checked out. Comments and order of the file are kept.

%s

Exit codes: 0 done, or the ring is in that state already; 1 an error.`, does, effect),
		Example: fmt.Sprintf("  plumbline fleet %s prod --reason %q", verb, "incident 42"),
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return ringNames(o.repo), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&o.repo, "repo", ".", "folder of the clone")
	_ = cmd.MarkFlagDirname("repo") // the flag exists
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the file and the commit")
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions) // the flag exists
	cmd.Flags().BoolVar(&o.noPush, "no-push", false, "only commit: push it, or merge it with a pull request, yourself")
	if verb == "pause" {
		_ = cmd.MarkFlagRequired("reason") // the flag exists
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		done, err := o.run(cmd.Context(), args[0], verb == "pause")
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), done)
		return nil
	}
	return cmd
}

// run edits, commits and pushes.
func (o *fleetPause) run(ctx context.Context, ring string, pauses bool) (string, error) {
	reason := strings.TrimSpace(oneLine(o.reason))
	if pauses && reason == "" {
		return "", errors.New("--reason must say why the ring is paused")
	}
	c, err := openClone(ctx, o.repo)
	if err != nil {
		return "", err
	}
	if !o.noPush {
		if err := c.pull(ctx); err != nil {
			return "", err
		}
	}
	if err := c.committed(ctx, promotion.File); err != nil {
		return "", err
	}
	file := filepath.Join(c.root, promotion.File)
	before, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	wanted, does := reason, "Pause"
	if !pauses {
		wanted, does = "", "Resume"
	}
	after, changed, err := promotion.SetPaused(before, ring, wanted)
	if err != nil {
		return "", err
	}
	if !changed {
		return fmt.Sprintf("ring %s: nothing to do", ring), nil
	}
	message := does + " ring " + ring
	if reason != "" {
		message += "\n\n" + reason
	}
	if err := c.commitSigned(ctx, file, before, after, message); err != nil {
		return "", err
	}
	what := strings.ToLower(does) + " ring " + ring
	if o.noPush {
		return fmt.Sprintf("%s: committed on branch %s, and not pushed", what, c.branch), nil
	}
	if err := c.push(ctx); err != nil {
		return "", fmt.Errorf("the commit is on branch %s of %s, and could not be pushed: push it, or merge it with a pull request: %w", c.branch, c.root, err)
	}
	return fmt.Sprintf("%s: pushed to %s", what, c.branch), nil
}

// committed returns an error if a file has changes that are not committed.
func (c *clone) committed(ctx context.Context, name string) error {
	changed, err := c.git(ctx, "status", "--porcelain", "--", name)
	if err == nil && changed != "" {
		err = fmt.Errorf("%s has uncommitted changes in %s: commit or stash them first", name, c.root)
	}
	return err
}

// commitSigned writes rings.yaml and commits it, signed. If that fails, the file is as it was before.
func (c *clone) commitSigned(ctx context.Context, file string, before, after []byte, message string) error {
	if err := os.WriteFile(file, after, 0o644); err != nil {
		return err
	}
	if _, err := c.git(ctx, "commit", "--quiet", "--gpg-sign", "--message", message, "--", promotion.File); err != nil {
		restored := os.WriteFile(file, before, 0o644)
		return errors.Join(fmt.Errorf("commit, signed with your key (git config user.signingkey): %w", err), restored)
	}
	return nil
}
