package stories_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes/ebs"
)

// volumesCommand is `volumes driver [intolerant]`, `volumes leave NODE`, `volumes [-t D] attached = N`, and
// `volumes follow` and then `volumes moved = N`.
func (s *story) volumesCommand(ts *testscript.TestScript, args []string) error {
	timeout, args, _, err := options(args)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "driver", len(args) == 2 && args[0] == "driver" && args[1] == "intolerant":
		return s.c.Nodes.InstallEBS(s.ctx, ebs.Install{IntolerantOfDisruption: len(args) == 2})
	case len(args) == 2 && args[0] == "leave":
		return s.leaveAttached(args[1])
	case len(args) == 1 && args[0] == "follow":
		s.volumes, err = followVolumes(s.ctx, s.c.Kube.Client)
		return err
	case len(args) == 3 && args[0] == "moved" && args[1] == "=" && s.volumes != nil:
		return s.movedVolumes(ts, args[2])
	case len(args) == 3 && args[0] == "attached" && args[1] == "=":
		return s.poll(timeout, func(ctx context.Context) error {
			list, err := s.c.Kube.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if got := fmt.Sprint(len(list.Items)); got != args[2] {
				return fmt.Errorf("VolumeAttachments: got %s, want %s", got, args[2])
			}
			return nil
		})
	}
	return errors.New("usage: volumes driver [intolerant], volumes leave NODE, volumes [-t D] attached = N, or volumes follow, and then volumes moved = N")
}

// movedVolumes checks how many volumes have moved, and prints how long each took.
func (s *story) movedVolumes(ts *testscript.TestScript, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("read how many volumes are to have moved: %w", err)
	}
	took, err := s.volumes.moved(s.ctx, n)
	for _, volume := range slices.Sorted(maps.Keys(took)) {
		ts.Logf("[from the drain of its pod until %s is attached to another node: %.1fs]", volume, took[volume].Seconds())
	}
	return err
}

// leaveAttached creates a VolumeAttachment of a missing node, with a driver that does not run, as remains when a CSI
// driver is uninstalled first.
func (s *story) leaveAttached(node string) error {
	volume := "pv-of-" + node
	_, err := s.c.Kube.Client.StorageV1().VolumeAttachments().Create(s.ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "left-by-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disk.example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	return err
}
