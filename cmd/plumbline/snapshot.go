package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/redact"
)

// defaultSnapshot is the file that a snapshot is written to.
const defaultSnapshot = "plumbline-snapshot.json.gz"

func newSnapshotCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var file string
	var aws bool
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write what scheduling reads of a cluster to a file",
		Long: `Write what Karpenter's scheduling reads of a cluster to a file, for
plumbline plan --what-if --snapshot, which then needs no cluster.

The file has nodes, NodeClaims, NodePools, EC2NodeClasses, NodeOverlays, DaemonSets,
PodDisruptionBudgets, volumes and their claims, the labels of namespaces, and pods
without their commands, environment, images and volumes. It has no Secret and no
ConfigMap; of user data it has a digest, and of Karpenter's own pods nothing that values
of the chart set, which may come out of a Secret. Names, labels and resource requests
are in it.

It needs to list these kinds, and changes nothing. What may not be read is printed, and
left out. With --aws it asks EC2 for the instance types of the region as well, with the
credentials of the AWS CLI (ec2:DescribeInstanceTypes, ec2:DescribeInstanceTypeOfferings):
without them a what-if cannot know which nodes could come.`,
		Example: "  plumbline snapshot --aws -f prod-eu.json.gz --context prod-eu",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&file, "file", "f", defaultSnapshot, "file to write")
	cmd.Flags().BoolVar(&aws, "aws", false, "ask EC2 for the instance types of the region")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		taken, err := simulate.ReadCapture(cmd.Context(), c, time.Now())
		if err != nil {
			return explain(err, "take a snapshot")
		}
		if aws {
			if taken.Catalog, err = catalogOf(cmd.Context(), taken.Region()); err != nil {
				return err
			}
		}
		packed := &bytes.Buffer{}
		if err := taken.Encode(packed); err != nil {
			return err
		}
		if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write the snapshot: %w", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes, %d pods, %s\n", redact.Visible(file), len(taken.Nodes), len(taken.Pods), humanize.IBytes(uint64(packed.Len())))
		for _, unread := range taken.Unread {
			fmt.Fprintln(cmd.OutOrStdout(), "not in it: "+redact.Visible(unread))
		}
		if taken.Catalog == nil {
			fmt.Fprintln(cmd.OutOrStdout(), "not in it: instance types; with --aws they are")
		}
		return nil
	}
	return cmd
}

// catalogOf asks EC2 for what it offers in a region, as the user.
func catalogOf(ctx context.Context, region string) (*offers.Catalog, error) {
	if region == "" {
		return nil, errors.New("no node says its region (label topology.kubernetes.io/region): EC2 cannot be asked")
	}
	asked, err := cloud.New(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli"})
	if err != nil {
		return nil, err
	}
	found, err := asked.Catalog(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask EC2 in %s for its instance types: %w", region, err)
	}
	return found, nil
}

// readSnapshot reads a file of plumbline snapshot.
func readSnapshot(file string) (*simulate.Capture, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	defer in.Close()
	taken, err := simulate.DecodeCapture(in)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", file, err)
	}
	return taken, nil
}
