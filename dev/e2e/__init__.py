"""What the end-to-end tests are driven by: a cluster through kubectl, and the scripts that bring clusters up."""
