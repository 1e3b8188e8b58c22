package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

// runVariable makes the test's binary run as plumbline, with less memory than a bomb takes.
const runVariable = "PLUMBLINE_TEST_RUN"

// mostMemory limits the memory of plumbline and its children: CI runs it on pull requests of untrusted people.
const mostMemory = 512 << 20

// withoutMetadata turns off requests for the credentials of an EC2 instance, in tests and in their child processes: they leave
// the machine, and commands without credentials would wait for an answer.
const withoutMetadata = "AWS_EC2_METADATA_DISABLED"

func TestMain(m *testing.M) {
	if err := os.Setenv(withoutMetadata, "true"); err != nil {
		panic(err)
	}
	confinement(os.Args) // a child process of plumbline, here the test's binary, exits in this call
	if os.Getenv(runVariable) != "" {
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: mostMemory, Max: mostMemory}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// TestBombsAtTheCommandLine: render and plan reject a commit that is too expensive to read, immediately and with little
// memory.
func TestBombsAtTheCommandLine(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	for name, c := range map[string]struct {
		write func(dir string) error
		want  string
	}{
		"aliases": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "bomb.yaml"), []byte(laughs), 0o600)
		}, "bomb/bomb.yaml:4: aliases make more of this text than it has bytes for"},
		"aliases that kustomize reads, behind a key that is twice": {func(dir string) error {
			err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("namePrefix: a-\nresources: [bomb.yaml]\n"), 0o600)
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "bomb.yaml"), []byte("a: 1\na: 2\n"+laughs), 0o600))
		}, "aliases make more of this text than it has bytes for"},
		"brackets": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "bomb.yaml"), bytes.Repeat([]byte("[],"), 300_000), 0o600)
		}, "bomb.yaml:1: it has more than 250000 values"},
		"patterns in a CRD of charts in Git": {patterns, "crd ec2nodeclasses.karpenter.k8s.aws is not compiled: its patterns would take more than 2 MiB of memory, which those of no release of Karpenter do; the heaviest one is at v1: spec.allOf[0]"},
		"a tree of folders": {func(dir string) error {
			return folders(dir, render.DefaultLimits().Folders+1)
		}, "too much to render"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"plumbline.yaml": karpenterYAML, "a.yaml": classYAML})
			bomb := filepath.Join(dir, "bomb")
			if err := errors.Join(os.Mkdir(bomb, 0o700), c.write(bomb)); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"render", "plan"} {
				got, memory := inLittleMemory(t, command, dir)
				if got.code != exitFailed || !strings.Contains(got.err, c.want) {
					t.Errorf("%s: code %d, %.500s", command, got.code, got.err)
				}
				if memory > mostMemory {
					t.Errorf("%s took %d MiB", command, memory>>20)
				}
			}
		})
	}
}

// inLittleMemory runs plumbline in a process, and returns the maximum memory of it or of one of its children.
func inLittleMemory(t *testing.T, args ...string) (said, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), runVariable+"=1"), &out, &errs
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s does not end", strings.Join(args, " "))
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no measure of memory")
	}
	return said{out: out.String(), err: errs.String(), code: cmd.ProcessState.ExitCode()}, usage.Maxrss << 10
}

// patterns creates charts next to a folder. In 63 kilobytes, their CRD contains repetitions that expand to gigabytes.
func patterns(dir string) error {
	allOf := ""
	for i := range 4 {
		allOf += fmt.Sprintf("{pattern: '^(%s%d)$'}, ", strings.Repeat("(a{0,30}){0,30}|", 1000), i)
	}
	crd := looseCRD + "              allOf: [" + allOf + "]\n"
	root := filepath.Dir(dir)
	for name, text := range map[string]string{
		"plumbline.yaml":                              karpenterYAML + "repository: ./charts\n",
		"charts/karpenter-crd/Chart.yaml":             "apiVersion: v2\nname: karpenter-crd\nversion: 1.14.3\n",
		"charts/karpenter-crd/templates/classes.yaml": crd,
		"charts/karpenter/Chart.yaml":                 "apiVersion: v2\nname: karpenter\nversion: 1.14.3\n",
	} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// folders creates this many folders, which a Git tree can represent with one object under many names.
func folders(dir string, count int) error {
	for i := range count {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700); err != nil {
			return err
		}
	}
	return nil
}
