package stories_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workloads live in this namespace.
const workloads = "default"

func (s *story) workloadCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, _, err := options(args)
	if err != nil {
		return err
	}
	if len(args) < 2 {
		return errors.New("usage: workload NAME replicas=N [pool=POOL] [pdb=N], or workload NAME gone")
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
		d, err := s.c.Kube.Client.AppsV1().Deployments(workloads).Get(ctx, name, metav1.GetOptions{})
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
	deployments := s.c.Kube.Client.AppsV1().Deployments(workloads)
	wanted := workload(name, replicas, settings["pool"])
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
	_, err = s.c.Kube.Client.PolicyV1().PodDisruptionBudgets(workloads).Create(s.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}, metav1.CreateOptions{})
	return err
}

// workload is a Deployment no two pods of which are on one node.
func workload(name string, replicas int32, pool string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	// The nodes of the managed node group are for the cluster's own.
	selector := map[string]string{}
	wanted := []corev1.NodeSelectorRequirement{{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpExists}}
	if pool != "" {
		selector["karpenter.sh/nodepool"] = pool
	}
	grace := int64(5)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					NodeSelector:                  selector,
					Affinity: &corev1.Affinity{
						NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
							NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: wanted}},
						}},
						PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
							TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
						}}},
					},
					Containers: []corev1.Container{{
						Name: "pause", Image: "registry.k8s.io/pause:3.10",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
						}},
					}},
				},
			},
		},
	}
}

// removeWorkload deletes a workload and waits until its pods are gone.
func (s *story) removeWorkload(name string) error {
	client := s.c.Kube.Client
	foreground := metav1.DeletePropagationForeground
	err := client.AppsV1().Deployments(workloads).Delete(s.ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = client.PolicyV1().PodDisruptionBudgets(workloads).Delete(s.ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	s.workloads = slices.DeleteFunc(s.workloads, func(n string) bool { return n == name })
	return s.poll(defaultWait, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(workloads).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
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
