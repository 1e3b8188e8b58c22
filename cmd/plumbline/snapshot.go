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

// defaultSnapshot is the default name of a snapshot's file.
const defaultSnapshot = "plumbline-snapshot.json.gz"

func newSnapshotCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var file string
	var aws bool
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write a cluster's scheduling data to a file",
		Long: `Write the objects that Karpenter's scheduling simulation reads to a file.
plumbline plan --what-if --snapshot reads that file and needs no cluster.

The file contains nodes, NodeClaims, NodePools, EC2NodeClasses, NodeOverlays, DaemonSets,
PodDisruptionBudgets, volumes and their claims, the labels of namespaces, and pods
without their commands, environment, images and volumes. It contains no Secrets and no
ConfigMaps. User data is replaced by a digest. Fields of Karpenter's own pods that chart
values set are left out, because values can come from a Secret. Names, labels and resource
requests are included.

You need permission to list these kinds; the command changes nothing. It prints the kinds
that you may not list, and leaves them out. With --aws it also queries EC2 for the instance
types of the region, with the credentials of the AWS CLI (ec2:DescribeInstanceTypes,
ec2:DescribeInstanceTypeOfferings). A what-if needs them to know which nodes could be launched.`,
		Example: "  plumbline snapshot --aws -f prod-eu.json.gz --context prod-eu",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&file, "file", "f", defaultSnapshot, "file to write")
	cmd.Flags().BoolVar(&aws, "aws", false, "query EC2 for the instance types of the region")
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
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes, %d pods, %s\n",
			redact.Visible(file), len(taken.Nodes), len(taken.Pods), humanize.IBytes(uint64(packed.Len())))
		for _, unread := range taken.Unread {
			fmt.Fprintln(cmd.OutOrStdout(), "not included: "+redact.Visible(unread))
		}
		if taken.Catalog == nil {
			fmt.Fprintln(cmd.OutOrStdout(), "not included: instance types; add --aws to include them")
		}
		return nil
	}
	return cmd
}

// catalogOf queries EC2, as the user, for its offerings in a region.
func catalogOf(ctx context.Context, region string) (*offers.Catalog, error) {
	if region == "" {
		return nil, errors.New("no node has the label topology.kubernetes.io/region, so the region to query in EC2 is unknown")
	}
	asked, err := cloud.New(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli"})
	if err != nil {
		return nil, err
	}
	found, err := asked.Catalog(ctx)
	if err != nil {
		return nil, fmt.Errorf("query EC2 in %s for its instance types: %w", region, err)
	}
	return found, nil
}

// readSnapshot reads a file that `plumbline snapshot` has written.
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
