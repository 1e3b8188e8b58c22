package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// clearScreen has a terminal begin at its top again (ECMA-48: CUP, ED).
const clearScreen = "\x1b[H\x1b[2J"

// again is how long a watch that was refused or cut is not begun again.
const again = time.Second

// watchNodeSyncs prints the list, and each change of it until the user ends it.
func watchNodeSyncs(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, output *objectOutput, all bool, args []string) error {
	if !output.human() {
		return errors.New("--watch prints a table: -o table or -o wide")
	}
	c, err := connect(cmd.Context(), kubeconfig)
	if err != nil {
		return err
	}
	out := &visibleWriter{cmd.OutOrStdout()}
	show := columns{header: true, namespace: all, wide: output.wide()}
	live, printed := widthOf(out) > 0, map[string]string{}
	return c.follow(cmd.Context(), all, args, func(syncs []v1alpha1.NodeSync) error {
		if live {
			_, err := io.WriteString(cmd.OutOrStdout(), clearScreen) // not through the visibleWriter
			printNodeSyncs(out, syncs, show)
			return err
		}
		if news := changed(syncs, printed); len(news) > 0 {
			printNodeSyncs(out, news, show)
			show.header = false
		}
		return nil
	})
}

// watchStatus shows the status of NodeSyncs, and again after each change: on a terminal each second, in a pipe one line for
// each change.
func (c *cluster) watchStatus(cmd *cobra.Command, output format, args []string, all bool) error {
	if output != formatTable {
		return errors.New("--watch prints text: leave -o out")
	}
	if widthOf(cmd.OutOrStdout()) > 0 {
		return c.watchLive(cmd, args, all)
	}
	out, said := &visibleWriter{cmd.OutOrStdout()}, map[string]string{}
	return c.follow(cmd.Context(), false, args, func(syncs []v1alpha1.NodeSync) error {
		for i := range syncs {
			if line := statusLine(&syncs[i]); said[syncs[i].Name] != line {
				said[syncs[i].Name] = line
				fmt.Fprintln(out, time.Now().UTC().Format(time.TimeOnly)+"Z "+line)
			}
		}
		return nil
	})
}

// statusLine is the status of a NodeSync in one line.
func statusLine(sync *v1alpha1.NodeSync) string {
	state := summary.StateOf(sync)
	line := "nodesync/" + sync.Name + ": " + stateWith(state, summary.Message(sync))
	if rollout := summary.Of(sync).RolloutMessage(); rollout != "" && !state.OfNodes() {
		line += "; rolling out: " + rollout
	}
	return line
}

// changed are the NodeSyncs whose version was not printed yet, which it notes.
func changed(syncs []v1alpha1.NodeSync, printed map[string]string) (news []v1alpha1.NodeSync) {
	for i := range syncs {
		name := client.ObjectKeyFromObject(&syncs[i]).String()
		if printed[name] != syncs[i].ResourceVersion {
			printed[name] = syncs[i].ResourceVersion
			news = append(news, syncs[i])
		}
	}
	return news
}

// follow calls seen with NodeSyncs, and again after each change of one, until the user ends it.
func (c *cluster) follow(ctx context.Context, all bool, args []string, seen func([]v1alpha1.NodeSync) error) error {
	for ctx.Err() == nil {
		if err := c.followOnce(ctx, all, args, seen); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil // the user has seen enough
}

// followOnce calls seen, and waits for the next change.
func (c *cluster) followOnce(ctx context.Context, all bool, args []string, seen func([]v1alpha1.NodeSync) error) error {
	list, err := c.listed(ctx, all)
	if err != nil {
		return err
	}
	syncs, err := only(list.Items, args)
	if err != nil {
		return err
	}
	if err := seen(syncs); err != nil {
		return err
	}
	return c.nextChange(ctx, all, list.ResourceVersion)
}

// only are the NodeSyncs of these names; without names all of them.
func only(syncs []v1alpha1.NodeSync, args []string) (found []v1alpha1.NodeSync, err error) {
	if len(args) == 0 {
		return syncs, nil
	}
	for _, arg := range args {
		name, err := nameOf(arg)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(syncs, func(n v1alpha1.NodeSync) bool { return n.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("NodeSync %s does not exist; `plumbline get -A` lists all", name)
		}
		found = append(found, syncs[i])
	}
	return found, nil
}

// nextChange returns when something has happened to a NodeSync since a list was read, or a while
// after the watch has ended without news.
func (c *cluster) nextChange(ctx context.Context, all bool, since string) error {
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}}
	if !all {
		options.Namespace = c.in(ctx)
	}
	events, err := c.Watch(ctx, &v1alpha1.NodeSyncList{}, options)
	if err != nil {
		return explain(err, "watch NodeSyncs")
	}
	defer events.Stop()
	select {
	case <-ctx.Done():
		return nil
	case _, news := <-events.ResultChan():
		if news {
			return nil
		}
	}
	wait := time.NewTimer(again)
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-wait.C:
	}
	return nil
}

// stateWith is a state and what there is to say of it, which may begin with the same word.
func stateWith(is summary.State, words string) string {
	if strings.HasPrefix(words, string(is)) {
		return words
	}
	return string(is) + ": " + words
}
