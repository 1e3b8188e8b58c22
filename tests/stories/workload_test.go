package stories_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/tests/stories/workload"
)

func (s *story) workloadCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, _, err := options(args)
	if err != nil {
		return err
	}
	if len(args) < 2 {
		return errors.New("usage: workload NAME replicas=N [pool=POOL] [pdb=N] [volume=SIZE], or workload NAME gone")
	}
	name := args[0]
	if args[1] == "gone" {
		return s.removeWorkload(name)
	}
	settings, err := settingsOf(args[1:])
	if err != nil {
		return err
	}
	replicas, err := strconv.Atoi(settings["replicas"])
	if err != nil {
		return fmt.Errorf("read replicas: %w", err)
	}
	if err := s.applyWorkload(name, int32(replicas), settings); err != nil {
		return err
	}
	return s.poll(timeout*2, func(ctx context.Context) error {
		d, err := s.c.Kube.Client.AppsV1().Deployments(workload.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Errorf("%d pods of %d are available", d.Status.AvailableReplicas, *d.Spec.Replicas)
		}
		return nil
	})
}

func (s *story) applyWorkload(name string, replicas int32, settings map[string]string) error {
	deployments := s.c.Kube.Client.AppsV1().Deployments(workload.Namespace)
	wanted := workload.Deployment(name, replicas, settings["pool"])
	if size := settings["volume"]; size != "" {
		claim, err := workload.Volume(wanted, size)
		if err != nil {
			return err
		}
		if _, err := s.c.Kube.Client.CoreV1().PersistentVolumeClaims(workload.Namespace).Create(s.ctx, claim, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	_, err := deployments.Create(s.ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = deployments.Update(s.ctx, wanted, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	if !slices.Contains(s.workloads, name) {
		s.workloads = append(s.workloads, name)
	}
	if settings["pdb"] == "" {
		return nil
	}
	least := intstr.Parse(settings["pdb"])
	_, err = s.c.Kube.Client.PolicyV1().PodDisruptionBudgets(workload.Namespace).Create(s.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}, metav1.CreateOptions{})
	return err
}

// removeWorkload deletes a workload and waits until it and its pods are gone.
func (s *story) removeWorkload(name string) error {
	client := s.c.Kube.Client
	foreground := metav1.DeletePropagationForeground
	err := client.AppsV1().Deployments(workload.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = client.PolicyV1().PodDisruptionBudgets(workload.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = client.CoreV1().PersistentVolumeClaims(workload.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	s.workloads = slices.DeleteFunc(s.workloads, func(n string) bool { return n == name })
	return s.poll(defaultWait, func(ctx context.Context) error {
		if _, err := client.AppsV1().Deployments(workload.Namespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return cmp.Or(err, fmt.Errorf("deployment %s is being deleted", name))
		}
		pods, err := client.CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		var names []string
		for i := range pods.Items {
			names = append(names, pods.Items[i].Name)
		}
		if len(names) > 0 {
			return fmt.Errorf("pods are left: %s", strings.Join(names, ", "))
		}
		return nil
	})
}
