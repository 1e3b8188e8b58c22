package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

func upCommand(dirFlag *string) *cobra.Command {
	var options sandbox.Options
	var detach, verbose bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a sandbox; Ctrl-C ends it, with -d `sandbox down` does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder(*dirFlag)
			if err != nil {
				return err
			}
			if detach {
				return upDetached(cmd, dir, options.Programs())
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			options.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			options.Progress = cmd.ErrOrStderr()
			options.Dir = dir
			return up(cmd, options)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&detach, detachFlag, "d", false, "leave the sandbox running in the background")
	flags.BoolVarP(&verbose, "verbose", "v", false, "log every request")
	flags.StringVar(&options.Cluster, "cluster", sandbox.DefaultCluster, "name of the EKS cluster")
	flags.StringVar(&options.Region, "region", sandbox.DefaultRegion, "AWS region")
	flags.StringVar(&options.Kubernetes, "kubernetes", binaries.DefaultKubernetes(),
		"minor version of Kubernetes to serve, 1.33 at the least; the default is the newest that the default Karpenter supports")
	flags.BoolVar(&options.FromSnapshot, "with-karpenter", false, "start from a prepared cluster with both charts installed")
	flags.BoolVar(&options.WithGit, "with-git", true, "start a Git host")
	flags.BoolVar(&options.WithVolumes, "with-volumes", false, "install the EBS CSI driver")
	flags.DurationVar(&options.BootTime, "boot-time", 0, "how long a running instance takes to register its node (default 1s)")
	flags.DurationVar(&options.DrainTime, "drain-time", 0, "how long a pod takes to end (default 1s)")
	return cmd
}

// command returns another command of this program for the same sandbox, as users type it.
func command(cmd *cobra.Command, name string) string {
	words := os.Args[0] + " " + name
	if dir := cmd.Flag("dir"); dir.Changed {
		words += fmt.Sprintf(" --dir %q", dir.Value)
	}
	return words
}

// up runs a sandbox until the command's context is done.
func up(cmd *cobra.Command, options sandbox.Options) error {
	ctx, dir := cmd.Context(), options.Dir
	unlock, err := tryLock(ctx, dir)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("a sandbox is already up in %s: %s", dir, howElse)
	case err != nil:
		return err
	}
	defer unlock()
	if err := sweep(dir); err != nil {
		return err
	}
	began := time.Now()
	s, err := sandbox.Up(ctx, options)
	if err != nil {
		return err
	}
	r := record{PID: os.Getpid(), Started: began, Bin: s.Bin(), Env: s.Variables()}
	if err := r.write(dir); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "up after %.1fs. In another terminal: eval \"$(%s)\"\n", time.Since(began).Seconds(), command(cmd, "env"))
	<-ctx.Done()
	fmt.Fprintln(cmd.ErrOrStderr(), "ending")
	return s.Down()
}

// sweep removes what an earlier sandbox left in the folder, and nothing else.
func sweep(dir string) error {
	for _, name := range []string{recordFile, "kube", "nodes", "karpenter", "git", "bin", "home"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what an earlier sandbox left: %w", err)
		}
	}
	return nil
}
