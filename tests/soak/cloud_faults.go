package soak

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// awsFaults are the kinds of fault that faultAWS draws from; breakCalls uses awssim.Fail.
func awsFaults() []string {
	return []string{string(awssim.Throttle), string(awssim.Delay), string(awssim.LoseResponse), string(awssim.Deny), string(awssim.Expire)}
}

// faultAWS makes calls to AWS fail, those of plumbline or those of all. Karpenter's calls are not denied for long: it
// would give up an instance.
func (s *soak) faultAWS(context.Context) (string, error) {
	who, d := s.pick([]string{"plumbline", "anyone"}), s.lasting()
	f := awssim.Fault{
		Service: "ec2", Action: s.pick([]string{"*", "Describe*", "DescribeInstances", "TerminateInstances"}),
		Kind: awssim.FaultKind(s.pick(awsFaults())),
	}
	if who == "plumbline" {
		f.AccessKey = s.sandbox.AWSVariables()["AWS_ACCESS_KEY_ID"]
	}
	if f.Kind == awssim.Delay {
		f.Duration = awssim.Duration(time.Duration(1+s.draw.IntN(4)) * time.Second)
	}
	made, err := s.sandbox.AWS.AddFault(f)
	if err != nil {
		return "", err
	}
	s.letStand("AWS", d, func(context.Context) error {
		s.sandbox.AWS.RemoveFaults(made.ID)
		return nil
	})
	return fmt.Sprintf("%s of %s's calls %s for %s", f.Kind, who, f.Action, rounded(d)), nil
}

// scaleController stops Karpenter for a while.
func (s *soak) scaleController(ctx context.Context) (string, error) {
	const name = "no controller"
	d := s.lasting()
	if s.faults.stands(name) {
		return "there is none already", nil
	}
	if err := s.setReplicas(ctx, 0); err != nil {
		return "", err
	}
	s.letStand(name, d, func(ctx context.Context) error { return s.setReplicas(ctx, 1) })
	return fmt.Sprintf("for %s", rounded(d)), nil
}

func (s *soak) setReplicas(ctx context.Context, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := s.sandbox.Kube.Client.AppsV1().Deployments(sandbox.ChartNamespace).Patch(ctx, "karpenter", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
