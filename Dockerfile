# An image for a JupyterHub: perfmagic loaded in every notebook, torch's CPU build, the lessons in the user's home.
#
#   docker build --tag perfmagic-hub .        and in jupyterhub_config.py
#   c.DockerSpawner.image = "perfmagic-hub"
#   c.Spawner.default_url = "/lab/tree/perfmagic/demos/00_tour.ipynb"
#
# A hub that mounts a volume over the whole home hides the lessons: mount it at ~/work, or copy them there.
# BASE is any image of the Jupyter Docker Stacks. Docker's own registry has those of October 2023; the stacks' page names
# the registry of the newer ones: --build-arg BASE=REGISTRY/jupyter/minimal-notebook:DATE. A CUDA device needs one of
# their CUDA images, and pytorch-gpu in environment.yml.
ARG BASE=jupyter/minimal-notebook:latest
FROM ${BASE}

# lesson 06 fuses operators on the CPU with it
USER root
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
USER ${NB_UID}

COPY --chown=${NB_UID}:${NB_GID} . ${HOME}/perfmagic
RUN cd "${HOME}/perfmagic" \
 && mamba env update --name base --file environment.yml \
 && mamba clean --all -f -y \
 && mkdir -p "${CONDA_DIR}/etc/ipython" \
 && cp jupyter-config/ipython_config.py "${CONDA_DIR}/etc/ipython/" \
 && fix-permissions "${CONDA_DIR}"
