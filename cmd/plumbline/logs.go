package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline-dev/plumbline/redact"
)

// longestLine is how long a line of the daemon's log may be, in bytes.
const longestLine = 1 << 20

func newLogsCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	options := corev1.PodLogOptions{Container: "plumbline"}
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "logs [NODESYNC]",
		Short: "Print what the daemon logs, of one NodeSync or all",
		Long: `Print what the pods of the daemon log: of one NodeSync, or everything. Each line
begins with its time and its level. -o json prints the lines as they are.`,
		Example:           "  plumbline logs prod-eu --since 1h\n  plumbline logs -f",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd)
	cmd.Flags().BoolVarP(&options.Follow, "follow", "f", false, "stay, and print what is logged")
	cmd.Flags().DurationVar(&since, "since", 0, "only what is newer than this, such as 5m; 0 for everything")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *output == formatYAML {
			return errors.New("-o is table or json for logs")
		}
		if since > 0 {
			seconds := int64(max(since.Round(time.Second), time.Second).Seconds())
			options.SinceSeconds = &seconds
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		name := ""
		if len(args) > 0 {
			if name, err = nameOf(args[0]); err != nil {
				return err
			}
		}
		lines, err := c.logs(cmd.Context(), options, name)
		if err != nil {
			return err
		}
		return lines.print(cmd.Context(), cmd.OutOrStdout(), *output == formatJSON)
	}
	return cmd
}

// logLines are those of the daemon's pods, of one NodeSync or all.
type logLines struct {
	streams []io.ReadCloser
	of      string
	follow  bool
}

// logs opens the logs of the daemon's pods.
func (c *cluster) logs(ctx context.Context, options corev1.PodLogOptions, of string) (*logLines, error) {
	clients, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, explain(err, "connect to "+c.config.Host)
	}
	namespace := c.in(ctx)
	pods, err := clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=plumbline"})
	if err != nil {
		return nil, explain(err, "list the pods of plumbline in "+namespace)
	}
	lines := &logLines{of: of, follow: options.Follow}
	for i := range pods.Items {
		stream, err := clients.CoreV1().Pods(namespace).GetLogs(pods.Items[i].Name, &options).Stream(ctx)
		if err != nil {
			return nil, explain(err, "read the log of pod "+namespace+"/"+pods.Items[i].Name)
		}
		lines.streams = append(lines.streams, stream)
	}
	if len(lines.streams) == 0 {
		if err := c.installed(ctx, "read the logs of plumbline"); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("no pod of plumbline is in %s: give the namespace of the daemon with -n", namespace)
	}
	return lines, nil
}

// print prints the lines: as they come, or all in the order of their times.
func (l *logLines) print(ctx context.Context, out io.Writer, raw bool) error {
	var mu sync.Mutex
	var all []logLine
	var reads errgroup.Group
	for _, stream := range l.streams {
		reads.Go(func() error {
			defer stream.Close()
			scanner := bufio.NewScanner(stream)
			scanner.Buffer(nil, longestLine)
			for scanner.Scan() {
				line := parseLine(scanner.Text())
				if l.of != "" && line.of() != l.of {
					continue
				}
				mu.Lock()
				if l.follow {
					fmt.Fprintln(out, line.words(raw))
				} else {
					all = append(all, line)
				}
				mu.Unlock()
			}
			return scanner.Err()
		})
	}
	err := reads.Wait()
	slices.SortStableFunc(all, func(a, b logLine) int { return strings.Compare(a.at(), b.at()) })
	for _, line := range all {
		fmt.Fprintln(out, line.words(raw))
	}
	if ctx.Err() != nil && l.follow {
		return nil // the user has seen enough
	}
	return err
}

// logLine is one line of the daemon's log: JSON, or else only text.
type logLine struct {
	text   string
	fields map[string]any
}

func parseLine(text string) logLine {
	line := logLine{text: text}
	if json.Unmarshal([]byte(text), &line.fields) != nil {
		line.fields = nil // what the Go runtime says is no JSON
	}
	return line
}

// at is when it was logged, in RFC 3339.
func (l logLine) at() string { return l.word("ts") }

func (l logLine) word(field string) string {
	word, _ := l.fields[field].(string)
	return word
}

// of is the NodeSync that it speaks of; empty where it speaks of none.
func (l logLine) of() string {
	for _, field := range []string{"NodeSync", "object"} {
		object, _ := l.fields[field].(map[string]any)
		if kind, named := object["kind"].(string); named && kind != "NodeSync" {
			continue
		}
		if name, named := object["name"].(string); named {
			return name
		}
	}
	return ""
}

// known are the fields that are printed in words of their own, or say where a line comes from.
var known = []string{"ts", "level", "msg", "logger", "controller", "controllerGroup", "controllerKind", "NodeSync", "namespace", "name", "reconcileID", "object", "type"}

// words are what a person reads of it.
func (l logLine) words(raw bool) string {
	if raw || l.fields == nil {
		return redact.Visible(l.text)
	}
	words := l.at() + " " + l.word("level")
	if of := l.of(); of != "" {
		words += " nodesync/" + of
	}
	words += ": " + l.word("msg")
	for _, field := range slices.Sorted(maps.Keys(l.fields)) {
		if slices.Contains(known, field) {
			continue
		}
		value, err := json.Marshal(l.fields[field])
		if err != nil {
			continue // it was decoded from JSON
		}
		words += fmt.Sprintf(" %s=%s", field, value)
	}
	return redact.Visible(strings.ReplaceAll(words, "\n", " "))
}
