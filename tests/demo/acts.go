package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/nodesync"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

// removed is the pool that the second commit removes.
const removed = "batch"

// pushNodes creates a repository with the example and makes the cluster follow it.
func (s *scene) pushNodes(ctx context.Context) error {
	s.begin("git push: %s (an EC2NodeClass, two NodePools)", example)
	var err error
	s.repo, err = repository.Create(ctx, s.sandbox.Git, name, filepath.Join(s.home, "clone"), filepath.Join(s.home, "git"))
	if err != nil {
		return err
	}
	manifest, err := nodesync.Manifest(nodesync.Options{
		Name: name, Namespace: daemon.Namespace, Repository: s.repo, User: s.sandbox.Git.Admin, Charts: s.sandbox.Charts.Repository,
		Settings: map[string]string{"removal.maxUnavailable": "100%", "rollout.waves": "{disabled: true}"}, // a person is watching
	})
	if err != nil {
		return err
	}
	if err := s.kubectl(ctx, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	if err := s.copyExample(); err != nil {
		return err
	}
	if err := s.push(ctx, "Add our nodes"); err != nil {
		return err
	}
	return s.follow(ctx)
}

// runWorkloads creates unschedulable pods, so that Karpenter launches instances.
func (s *scene) runWorkloads(ctx context.Context) error {
	s.begin("Pending pods: web has 2, jobs has 3 that prefer %s", removed)
	if err := s.kubectl(ctx, []byte(workloads), "apply", "-f", "-"); err != nil {
		return err
	}
	return s.untilPodsRun(ctx)
}

// untilPodsRun waits until all pods run, and prints where.
func (s *scene) untilPodsRun(ctx context.Context) error {
	err := s.until(ctx, func(ctx context.Context) error {
		for _, workload := range []string{"web", "jobs"} {
			d, err := s.sandbox.Kube.Client.AppsV1().Deployments("default").Get(ctx, workload, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas < *d.Spec.Replicas {
				return fmt.Errorf("%d of %d pods of %s run", d.Status.AvailableReplicas, *d.Spec.Replicas, workload)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	nodes, err := s.nodesByPool(ctx)
	if err != nil {
		return err
	}
	s.done("all 5 pods run; nodes: %s", nodes)
	return nil
}

func (s *scene) nodesByPool(ctx context.Context) (string, error) {
	const label = "karpenter.sh/nodepool"
	list, err := s.sandbox.Kube.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return "", err
	}
	count := map[string]int{}
	for i := range list.Items {
		count[list.Items[i].Labels[label]]++
	}
	var parts []string
	for pool, n := range count {
		parts = append(parts, fmt.Sprintf("%d in %s", n, pool))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", "), nil
}

// removePool removes a NodePool with a commit.
func (s *scene) removePool(ctx context.Context) error {
	s.begin("git rm nodes/%s.yaml", removed)
	before := s.instances(removed)
	if err := os.Remove(filepath.Join(s.repo.Clone, "nodes", removed+".yaml")); err != nil {
		return err
	}
	if err := s.push(ctx, "Remove the pool for jobs"); err != nil {
		return err
	}
	if err := s.filmRemoval(ctx); err != nil {
		return err
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	if left := s.instances(removed); len(left) > 0 {
		return fmt.Errorf("plumbline is done, and EC2 still has %s of pool %s", strings.Join(left, ", "), removed)
	}
	s.done("EC2 reports no instance of pool %s (it had %s)", removed, strings.Join(before, ", "))
	return s.untilPodsRun(ctx)
}

// instances returns those of a pool that EC2 has not terminated.
func (s *scene) instances(pool string) []string {
	var ids []string
	for _, i := range s.sandbox.AWS.Instances() {
		if i.State != "terminated" && i.Tags["karpenter.sh/nodepool"] == pool {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// showStatuses prints the statuses of each commit.
func (s *scene) showStatuses(ctx context.Context) error {
	s.begin("Commit statuses at the Git host: %s/commits/branch/main", s.repo.Page())
	for _, c := range s.commits {
		statuses, err := s.endedStatuses(ctx, c.hash)
		if err != nil {
			return err
		}
		s.done("%s %q", c.hash[:8], c.message)
		for _, status := range statuses {
			s.say(fmt.Sprintf("         %-8s %s: %s\n", status.State, status.Context, status.Description))
		}
	}
	return nil
}

// endedStatuses returns those of a commit, once none is pending: they are posted shortly after the cluster has reached
// the state.
func (s *scene) endedStatuses(ctx context.Context, commit string) (statuses []githost.Status, err error) {
	err = s.until(ctx, func(ctx context.Context) error {
		if statuses, err = s.repo.Statuses(ctx, commit); err != nil {
			return err
		}
		whole := githost.On("", statuses)
		if len(whole) == 0 || whole[len(whole)-1].State == "pending" {
			return fmt.Errorf("commit %s has no final status yet", commit[:8])
		}
		return nil
	})
	return statuses, err
}

// clear deletes everything again, unless the sandbox is kept.
func (s *scene) clear(ctx context.Context) error {
	if s.staying {
		return s.showLeft()
	}
	s.begin("kubectl delete nodesync %s, with onDelete: Drain", name)
	for _, args := range [][]string{
		{"delete", "deployment", "web", "jobs", "--namespace=default"},
		{"patch", "nodesync", name, "--namespace=" + daemon.Namespace, "--type=merge", "--patch", `{"spec":{"onDelete":"Drain"}}`},
		{"delete", "nodesync", name, "--namespace=" + daemon.Namespace, "--wait=false"},
	} {
		if err := s.kubectl(ctx, nil, args...); err != nil {
			return err
		}
	}
	err := s.until(ctx, func(ctx context.Context) error {
		_, err := s.objects.Resource(nodeSyncs).Namespace(daemon.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("NodeSync %s is still there", name)
	})
	if err != nil {
		return err
	}
	s.done("the NodeSync, its pools and its class are gone; Karpenter's charts stay")
	return s.showLeft()
}

// showLeft prints what the cluster still has in AWS, and the total time.
func (s *scene) showLeft() error {
	left := s.sandbox.AWS.Left(s.sandbox.Cluster)
	if s.staying {
		s.begin("Running in AWS, as in Git: %d instances with their interfaces and volumes, %d launch templates, %d instance profile",
			len(left.Instances), len(left.LaunchTemplates), len(left.InstanceProfiles))
	} else {
		s.begin("Left in AWS: %s", left)
	}
	s.say(fmt.Sprintf("The demo took %.0f seconds.\n", time.Since(s.began).Seconds()))
	if !s.staying && !left.Empty() {
		return fmt.Errorf("left in AWS, and nobody will take it away: %s", left)
	}
	return nil
}
