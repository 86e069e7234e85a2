// Graphs: launches that are captured once and run again and again.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

int cuda_graph_begin(struct device *device, void *stream, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cannot capture the stream");
  cuda_leave(&guard);
  return rc;
}

int cuda_graph_end(struct device *device, void *stream, void **graph, char *why) {
  struct cuda_guard guard;
  cudaGraph_t captured = NULL;
  cudaGraphExec_t made = NULL;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, cudaStreamEndCapture(stream, &captured), "cannot end the capture");
  if (rc == 0)
    rc = cuda_check(why, cudaGraphInstantiateWithFlags(&made, captured, 0), "cannot make a graph of what was captured");
  if (rc == 0)
    rc = cuda_check(why, cudaGraphUpload(made, stream), "cannot bring the graph to the device");
  if (rc != 0 && made)
    cudaGraphExecDestroy(made);
  if (captured)
    cudaGraphDestroy(captured);
  cuda_leave(&guard);
  if (rc == 0)
    *graph = made;
  return rc;
}

int cuda_graph_launch(struct device *device, void *graph, void *stream, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, cudaGraphLaunch(graph, stream), "cannot launch the graph");
  cuda_leave(&guard);
  return rc;
}

void cuda_graph_close(struct device *device, void *graph) {
  struct cuda_guard guard;
  if (!graph || cuda_enter(device, &guard, NULL) != 0)
    return;
  cudaGraphExecDestroy(graph);
  cudaGetLastError();
  cuda_leave(&guard);
}
